// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_MAP_GROUPS_H_
#define BACKENDS_CPU_MAP_GROUPS_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf::cpu {

// Finds consecutive maps over the same elements that share operands or read
// each other's results, as the update of a parameter by AdamW does:
//
//   %m' = map(%m, %g)         read 2, write 1 of the four tensors
//   %v' = map(%v, %g)
//   %w' = map(%w, %m', %v')
//
// Run block by block, they read every tensor from memory once. Instructions
// that do nothing at run time may lie between them.
std::vector<std::vector<int>> FindMapGroups(const Program& program);

// Prepares the maps of a group as one kernel. Null if the memory of a result
// overlaps a tensor that an earlier member still reads at other elements; each
// member is then prepared on its own. The results are bitwise the same.
std::unique_ptr<Kernel> PrepareMapGroup(absl::Span<const Binding> members);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_MAP_GROUPS_H_
