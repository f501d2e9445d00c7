// SPDX-License-Identifier: Apache-2.0
#include "backends/executor/variable_store.h"

#include "layouts/shard.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf {

VariableStore::~VariableStore() {
  for (auto& [name, storage] : storage_) device_.Free(storage.first);
}

absl::StatusOr<void*> VariableStore::Find(const Program& program,
                                          const ProgramVariable& variable) {
  const int64_t bytes =
      LocalElements(program.grains, variable.shape, variable.layout) *
      DTypeSize(variable.dtype);
  auto it = storage_.find(variable.name);
  if (it == storage_.end()) {
    MTF_ASSIGN_OR_RETURN(void* data, device_.Allocate(bytes));
    it = storage_.emplace(variable.name, std::make_pair(data, bytes)).first;
  }
  MTF_CHECK_EQ(it->second.second, bytes)
      << "bytes of variable " << variable.name << " in two programs";
  return it->second.first;
}

}  // namespace mtf
