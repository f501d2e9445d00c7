// SPDX-License-Identifier: Apache-2.0
//
// The part of the verifier that knows what a map, or a reduction of what a map
// makes, computes at each element. Not for other passes: they call
// VerifyProgram.
#ifndef LOWERING_VERIFY_VERIFY_EXPRESSIONS_H_
#define LOWERING_VERIFY_VERIFY_EXPRESSIONS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks the expression of a map or a reduction, computed at each element of
// `space`: its steps, their dtypes, and that operands are broadcast to `space`.
// kInternal, without saying which instruction it is.
absl::Status VerifyExpression(const Program& program,
                              const Instruction& instruction,
                              const MapExpression& expression,
                              const Shape& space);

// Checks that every dimension of `part` is one of `whole`, in the same size.
absl::Status VerifyWithin(const Shape& part, const Shape& whole);

// The error about a dimension: its name and `what`.
absl::Status BadDimension(absl::string_view name, absl::string_view what);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_EXPRESSIONS_H_
