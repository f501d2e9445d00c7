// SPDX-License-Identifier: Apache-2.0
#include "backends/executor/variable_store.h"

#include "layouts/shard.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf {

VariableStore::~VariableStore() {
  for (auto& [name, storage] : storage_) {
    if (storage.is_host) {
      device_.FreeHost(storage.data);
    } else {
      device_.Free(storage.data);
    }
  }
}

absl::StatusOr<void*> VariableStore::Find(const Program& program,
                                          const ProgramVariable& variable) {
  const int64_t bytes =
      LocalElements(program.grains, variable.shape, variable.layout) *
      DTypeSize(variable.dtype);
  auto it = storage_.find(variable.name);
  if (it == storage_.end()) {
    MTF_ASSIGN_OR_RETURN(void* data, variable.offloaded
                                         ? device_.AllocateHost(bytes)
                                         : device_.Allocate(bytes));
    it = storage_
             .emplace(variable.name, Storage{data, bytes, variable.offloaded})
             .first;
  }
  MTF_CHECK_EQ(it->second.bytes, bytes)
      << "bytes of variable " << variable.name << " in two programs";
  MTF_CHECK_EQ(it->second.is_host, variable.offloaded)
      << "memory of variable " << variable.name << " in two programs";
  return it->second.data;
}

int64_t VariableStore::BytesIn(bool host) const {
  int64_t bytes = 0;
  for (const auto& [name, storage] : storage_) {
    if (storage.is_host == host) bytes += storage.bytes;
  }
  return bytes;
}

}  // namespace mtf
