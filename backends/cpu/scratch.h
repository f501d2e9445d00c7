// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_SCRATCH_H_
#define BACKENDS_CPU_SCRATCH_H_

#include <cstdint>

namespace mtf::cpu {

// Users of scratch memory. Nested users need separate memory.
enum class ScratchUse { kKernel, kMatmul };
inline constexpr int kNumScratchUses = 2;

// Returns at least `bytes` of memory, aligned to 64, which is valid until the
// same thread calls this again for the same use. Kernels of one thread run one
// after the other, so all of them share the memory of the largest.
void* ThreadScratch(ScratchUse use, int64_t bytes);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_SCRATCH_H_
