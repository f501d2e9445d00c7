// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_VERIFY_VERIFY_ATTENTION_H_
#define LOWERING_VERIFY_VERIFY_ATTENTION_H_

#include "absl/status/status.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// Checks the numbers, shapes and dtypes of the operands and results of an
// attention or an attention_gradient.
absl::Status VerifyAttentionShapes(const Program& program,
                                   const Instruction& instruction);

// Checks that the dimensions it sums over are not sharded and that each result
// is unreduced over the axes of the dimensions that it lacks. The shapes have
// been checked, and that each dimension has one sharding.
absl::Status VerifyAttentionLayouts(const Program& program,
                                    const Instruction& instruction);

}  // namespace mtf::internal

#endif  // LOWERING_VERIFY_VERIFY_ATTENTION_H_
