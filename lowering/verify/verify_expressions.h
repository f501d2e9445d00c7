// SPDX-License-Identifier: Apache-2.0
//
// A part of VerifyProgram: the expressions of maps and reductions.
#ifndef LOWERING_VERIFY_VERIFY_EXPRESSIONS_H_
#define LOWERING_VERIFY_VERIFY_EXPRESSIONS_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks an expression that is computed at each element of `space`: its steps,
// their dtypes, and that the operands can be broadcast to `space`. Returns
// kInternal; the caller adds the instruction.
absl::Status VerifyExpression(const Program& program,
                              const Instruction& instruction,
                              const MapExpression& expression,
                              const Shape& space);

// Checks that `space` has every dimension of `shape`, with the same size.
absl::Status VerifyWithin(const Shape& shape, const Shape& space);

// The error of an instruction; the caller adds the instruction.
absl::Status Bad(absl::string_view what);

// An error about a dimension: its name, then `what`.
absl::Status BadDimension(absl::string_view name, absl::string_view what);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_EXPRESSIONS_H_
