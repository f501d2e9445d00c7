// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_ABSORB_MAP_H_
#define LOWERING_PASSES_ABSORB_MAP_H_

#include <cstddef>
#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// Bounds on one kernel: registers of the block interpreter, and streams that
// the prefetcher still follows.
inline constexpr size_t kMostMapSteps = 48;
inline constexpr size_t kMostMapOperands = 10;

// Whether `reader`, a map or a reduce, runs over the very elements of `value`.
bool RunsOverElements(const Program& program, const Instruction& reader,
                      int value);

// Rewrites `reader`, which reads `value` from the map `producer`, to compute it
// itself. `steps` are those of `producer`.
//
//   %1 = map(%x, %b) add     %2 = map(%1) gelu
//   %2 = map(%x, %b) [add($0, $1); gelu($2)]
void AbsorbMap(const Instruction& producer, std::vector<MapStep> steps,
               int value, Instruction& reader);

}  // namespace mtf

#endif  // LOWERING_PASSES_ABSORB_MAP_H_
