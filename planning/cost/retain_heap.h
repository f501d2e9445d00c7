// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_COST_RETAIN_HEAP_H_
#define PLANNING_COST_RETAIN_HEAP_H_

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace mtf::internal {

// For programs that plan and then exit. Lowering allocates and frees megabytes
// thousands of times; after this call malloc no longer returns memory to the
// system, which saves up to a quarter of the time.
inline void RetainHeap() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 1 << 26);
#endif
}

}  // namespace mtf::internal

#endif  // PLANNING_COST_RETAIN_HEAP_H_
