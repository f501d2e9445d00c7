// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_INDEX_H_
#define OPS_INDEX_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Element `index` of `x` along `dim`, which the result does not have. Any
// dtype. The gradient is 0 at the other elements.
//
//   Tensor last = Index(x, "time", time.size - 1);  // [batch, time] -> [batch]
//
// Records kInvalidArgument in the graph if `x` lacks `dim` or `index` is
// outside [0, size of `dim`). Returns an empty Tensor if `x` is empty.
Tensor Index(Tensor x, absl::string_view dim, int64_t index,
             std::source_location location = std::source_location::current());

// As above, for an index that a step computes: a scalar i32 or i64. With more
// dimensions, such as [batch], it selects one element for each of theirs, as
// Gather, which has the errors.
//
//   Tensor now = Index(x, "time", position);
Tensor Index(Tensor x, absl::string_view dim, Tensor index,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_INDEX_H_
