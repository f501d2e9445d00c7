// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_REDUCE_IN_ORDER_H_
#define BACKENDS_COMMUNICATORS_REDUCE_IN_ORDER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "mtf/dtype.h"
#include "mtf/emitter.h"

namespace mtf {

// Reduces `sources`, each of `count` elements, into `out`, which may be one of
// them: ((s0 + s1) + s2) + ... for every element. Every communicator reduces
// through this function, in the order of the ranks of the group, so the bits of
// a sum depend neither on the communicator nor on the message size.
//
// bf16 and f16 are added in float and rounded once at the end. Integers wrap
// around. For bool, sum and max are "any" and min is "all". Max and min return
// NaN if any source is NaN.
void ReduceInOrder(DType dtype, ReduceKind kind,
                   absl::Span<const void* const> sources, void* out,
                   int64_t count);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_REDUCE_IN_ORDER_H_
