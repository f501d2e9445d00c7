// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_BOUND_ROWS_H_
#define BACKENDS_BOUND_ROWS_H_

#include <string>

#include "backends/backend.h"
#include "lowering/program/ring_rows.h"

namespace mtf {

// The rows of `dimension`, the length or the memory_length of an attention,
// that `value`, an operand or a result of the attention `binding`, has in
// memory.
RingRows RowsOfAttention(const Binding& binding, const BoundValue& value,
                         const std::string& dimension);

}  // namespace mtf

#endif  // BACKENDS_BOUND_ROWS_H_
