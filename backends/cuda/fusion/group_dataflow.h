// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_GROUP_DATAFLOW_H_
#define BACKENDS_CUDA_FUSION_GROUP_DATAFLOW_H_

#include <vector>

#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf::cuda {

// How the members of a group of maps and reductions hang together: what comes
// from memory, what one member hands to the next in registers, and what has to
// be stored because somebody else reads it.
struct GroupDataflow {
  // Of an operand: one of the two.
  struct Source {
    int input = -1;   // place in `inputs`
    int member = -1;  // whose result it is
  };
  std::vector<std::vector<Source>> sources;  // by member and operand
  std::vector<BoundValue> inputs;            // each once
  std::vector<bool> stored;                  // by member: its result

  // The values of a group whose operands all come from before it, or from
  // within.
  static GroupDataflow Of(absl::Span<const Binding> members);

  // Whether results may be stored while operands of the group are still to be
  // read: no stored result lies over an input, but for one of the same places
  // as its own (`in_place`), or over another stored result.
  bool StoresAreSafe(absl::Span<const Binding> members) const;

 private:
  int AddInput(const BoundValue& operand);
};

// Whether `a` and `b` have the same local dimensions in one order.
bool SameElements(const BoundValue& a, const BoundValue& b);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_GROUP_DATAFLOW_H_
