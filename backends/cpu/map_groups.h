// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_MAP_GROUPS_H_
#define BACKENDS_CPU_MAP_GROUPS_H_

#include <memory>

#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf::cpu {

// Longer groups would not keep their blocks in the first-level cache.
inline constexpr int kMaxGroupedMaps = 8;

// Prepares the maps of a group (lowering/passes/batch_maps.h) as one kernel:
// run block by block, they read every tensor from memory once. Null if the
// memory of a result overlaps a tensor that an earlier member still reads at
// other elements; each member is then prepared on its own. The results are
// bitwise the same.
std::unique_ptr<Kernel> PrepareMapGroup(absl::Span<const Binding> members);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_MAP_GROUPS_H_
