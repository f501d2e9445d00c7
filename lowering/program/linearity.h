// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_LINEARITY_H_
#define LOWERING_PROGRAM_LINEARITY_H_

#include "absl/types/span.h"
#include "lowering/program/instruction.h"
#include "mtf/dtype.h"
#include "mtf/map_expression.h"

namespace mtf {

// Whether `expression` is linear in all its operands together, so that it can
// be applied to the summands of an unreduced value instead of to their sum.
// Such expressions add, negate, multiply by literals and cast to wider dtypes.
// A cast to a narrower dtype is not linear: it would round every summand.
bool IsLinear(const MapExpression& expression,
              absl::Span<const DType> operand_dtypes);

// Whether `instruction` is linear in all its operands together: a map or a sum
// of a linear expression, or an instruction that only moves elements or adds
// zeros to them.
bool IsLinear(const Instruction& instruction,
              absl::Span<const DType> operand_dtypes);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_LINEARITY_H_
