// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/host_memory.h"

#include <sys/mman.h>

namespace mtf::train {

HostMemory AllocateHostMemory(int64_t bytes) {
  constexpr int64_t kLargePage = 2 << 20;
  const bool is_large = bytes >= 2 * kLargePage;
  const int64_t alignment = is_large ? kLargePage : 64;
  const int64_t rounded = (bytes / alignment + 1) * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded);
#ifdef MADV_HUGEPAGE
  if (is_large && memory != nullptr) madvise(memory, rounded, MADV_HUGEPAGE);
#endif
  return HostMemory(static_cast<char*>(memory));
}

}  // namespace mtf::train
