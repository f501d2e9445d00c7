// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CHECKPOINT_HOST_MEMORY_H_
#define TRAIN_CHECKPOINT_HOST_MEMORY_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace mtf::train {

struct FreeHostMemory {
  void operator()(char* memory) const { std::free(memory); }
};
using HostMemory = std::unique_ptr<char, FreeHostMemory>;

// `bytes` bytes that are not set, for a copy of a shard; null if there is no
// memory. Large ones are in large pages, because a page fault for each 4 KiB
// takes longer than copying them: new memory was filled at a third of the rate
// in a virtual machine.
HostMemory AllocateHostMemory(int64_t bytes);

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_HOST_MEMORY_H_
