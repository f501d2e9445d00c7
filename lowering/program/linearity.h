// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_LINEARITY_H_
#define LOWERING_PROGRAM_LINEARITY_H_

#include "absl/types/span.h"
#include "mtf/dtype.h"
#include "mtf/map_expression.h"

namespace mtf {

// Whether `expression` is linear in all its operands taken together, so that
// it may be applied to each summand of a pending sum instead of to the sum:
// additions, negations, products with literals, and casts that lose nothing.
// A cast down rounds, and rounding before the sum would lose what the sum
// keeps.
bool IsLinear(const MapExpression& expression,
              absl::Span<const DType> operand_dtypes);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_LINEARITY_H_
