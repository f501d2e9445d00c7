// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_DERIVED_FROM_PARAMETERS_H_
#define LOWERING_PROGRAM_DERIVED_FROM_PARAMETERS_H_

#include <vector>

#include "lowering/program/program.h"

namespace mtf {

// By instruction, whether it reads a variable or computes its result from one
// variable by unary maps and moves alone (IsUnaryMapOrMove). Such values can be
// computed at any point of the step, so overlap_collectives gathers them ahead
// of their use.
std::vector<bool> FindDerivedFromVariables(const Program& program);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_DERIVED_FROM_PARAMETERS_H_
