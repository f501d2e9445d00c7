// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_GROUP_VALUES_H_
#define BACKENDS_GROUP_VALUES_H_

#include "absl/types/span.h"
#include "backends/backend.h"

namespace mtf {

// The memory of `value`, an operand or a result of one of the `members` of a
// group; null if it is neither.
void* AddressOf(int value, absl::Span<const Binding> members);

}  // namespace mtf

#endif  // BACKENDS_GROUP_VALUES_H_
