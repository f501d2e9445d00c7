// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_FUSED_GROUP_H_
#define LOWERING_FUSION_FUSED_GROUP_H_

#include <vector>

namespace mtf {

// Instructions that a device runs as one kernel, at the position of the first.
struct FusedGroup {
  std::vector<int> members;  // ascending
  // The values that the kernel writes to memory. Values between members have no
  // other readers and no memory.
  std::vector<int> outputs;
  // Outputs that may overwrite an operand of the same shape that has no later
  // reader.
  std::vector<int> in_place = {};
};
using FusedGroups = std::vector<FusedGroup>;

}  // namespace mtf

#endif  // LOWERING_FUSION_FUSED_GROUP_H_
