// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_EXECUTOR_VARIABLE_STORE_H_
#define BACKENDS_EXECUTOR_VARIABLE_STORE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "lowering/program/program.h"

namespace mtf {

// The variables of one rank by name, in device memory or, if they are
// offloaded, in host memory. Shared by all programs of one graph.
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
  // The bytes of the variables in device memory, and in host memory.
  int64_t device_bytes() const { return BytesIn(/*host=*/false); }
  int64_t host_bytes() const { return BytesIn(/*host=*/true); }

 private:
  struct Storage {
    void* data = nullptr;
    int64_t bytes = 0;
    bool is_host = false;
  };
  int64_t BytesIn(bool host) const;

  Device& device_;
  std::map<std::string, Storage> storage_;
};

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_VARIABLE_STORE_H_
