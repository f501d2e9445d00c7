// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_FUSED_GROUP_H_
#define LOWERING_FUSION_FUSED_GROUP_H_

#include <cstdint>
#include <map>
#include <vector>

namespace mtf {

// Instructions that a device runs as one, where the first of them stands.
struct FusedGroup {
  std::vector<int> members;  // ascending
  // The values that it leaves in memory; nobody else reads the others, which
  // have none.
  std::vector<int> outputs;
  // Bytes of outputs of which the device keeps another form than they have.
  std::map<int, int64_t> bytes;
  // Outputs that may take the memory of an operand of the same places, once
  // nobody else reads it.
  std::vector<int> in_place = {};
  // Values that it reads and none of its members does.
  std::vector<int> reads = {};
};

}  // namespace mtf

#endif  // LOWERING_FUSION_FUSED_GROUP_H_
