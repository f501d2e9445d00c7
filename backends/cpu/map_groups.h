// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_MAP_GROUPS_H_
#define BACKENDS_CPU_MAP_GROUPS_H_

#include <memory>

#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf::cpu {

// Prepares the maps of a group (lowering/passes/batch_maps.h). Maps that share
// tensors run block by block and read each tensor from memory once; all of them
// run in one parallel loop (map_sweep.h). Where the memory of a result overlaps
// a tensor that an earlier member still reads at other elements, another loop
// begins. The results are bitwise those of single maps.
std::unique_ptr<Kernel> PrepareMapGroup(absl::Span<const Binding> members);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_MAP_GROUPS_H_
