// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_GROUP_DATAFLOW_H_
#define BACKENDS_CUDA_FUSION_GROUP_DATAFLOW_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf::cuda {

// The data flow within a group of maps and reductions: inputs from memory,
// values passed between members in registers, and results stored because
// instructions outside the group read them.
struct GroupDataflow {
  // The source of an operand; exactly one of the two is set.
  struct Source {
    int input = -1;   // index in `inputs`
    int member = -1;  // whose result it is
  };
  std::vector<std::vector<Source>> sources;  // by member and operand
  std::vector<BoundValue> inputs;            // without duplicates
  std::vector<bool> stored;                  // by member: result is stored

  // The operands of `members` must come from before the group or from within
  // it.
  static GroupDataflow Of(absl::Span<const Binding> members);

  // Whether results may be stored before all operands have been read: no stored
  // result overlaps another one, or an input, except for an input of the same
  // elements as the result (`in_place`).
  bool StoresAreSafe(absl::Span<const Binding> members) const;

 private:
  int AddInput(const BoundValue& operand);
};

// The bytes of a value's local memory.
int64_t BytesOf(const BoundValue& value);
// Whether the memory of two values overlaps.
bool Overlap(const BoundValue& a, const BoundValue& b);
// The operand or result `value` of any member, or null.
const BoundValue* FindValue(absl::Span<const Binding> members, int value);
// Whether `a` and `b` have the same local dimensions in the same order.
bool SameLocalShape(const BoundValue& a, const BoundValue& b);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_GROUP_DATAFLOW_H_
