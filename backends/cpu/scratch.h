// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_SCRATCH_H_
#define BACKENDS_CPU_SCRATCH_H_

#include <cstdint>

namespace mtf::cpu {

// Whose scratch memory: uses that nest need one each.
enum class ScratchUse { kKernel, kMatmul };
inline constexpr int kNumScratchUses = 2;

// Memory of at least `bytes`, aligned to 64, that lasts until the same thread
// asks again for the same use. Kernels of one thread run one after the other,
// so all of them share what the largest needs.
void* ThreadScratch(ScratchUse use, int64_t bytes);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_SCRATCH_H_
