// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_ABSORB_MAP_H_
#define LOWERING_PASSES_ABSORB_MAP_H_

#include <cstddef>
#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// Limits of one fused kernel: the registers of the block interpreter, and the
// number of streams that the hardware prefetcher follows.
inline constexpr size_t kMaxMapSteps = 48;
inline constexpr size_t kMaxMapOperands = 10;

// Whether `reader`, a map or a reduction, iterates over exactly the elements of
// `value`.
bool IteratesOver(const Program& program, const Instruction& reader, int value);

// Fuses the map `producer` of `value` into `reader`: `reader` then computes
// `value` itself from the operands of `producer`. `steps` are the steps of
// `producer`.
//
//   %1 = map(%x, %b) add     %2 = map(%1) gelu
//   %2 = map(%x, %b) [add($0, $1); gelu($2)]
void AbsorbMap(const Instruction& producer, std::vector<MapStep> steps,
               int value, Instruction& reader);

}  // namespace mtf

#endif  // LOWERING_PASSES_ABSORB_MAP_H_
