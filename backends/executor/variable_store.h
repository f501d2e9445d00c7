// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_EXECUTOR_VARIABLE_STORE_H_
#define BACKENDS_EXECUTOR_VARIABLE_STORE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "lowering/program/program.h"

namespace mtf {

// The variables of one rank by name, in device memory. Shared by all programs
// of one graph.
class VariableStore {
 public:
  explicit VariableStore(Device& device) : device_(device) {}
  ~VariableStore();
  VariableStore(const VariableStore&) = delete;
  VariableStore& operator=(const VariableStore&) = delete;

  // The memory of `variable`, allocated and zeroed on first use.
  absl::StatusOr<void*> Find(const Program& program,
                             const ProgramVariable& variable);
  Device& device() { return device_; }

 private:
  Device& device_;
  std::map<std::string, std::pair<void*, int64_t>> storage_;
};

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_VARIABLE_STORE_H_
