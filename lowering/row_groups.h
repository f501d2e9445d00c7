// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_ROW_GROUPS_H_
#define LOWERING_ROW_GROUPS_H_

#include <vector>

#include "lowering/program.h"

namespace mtf {

// Runs of maps and reductions that work on the same rows: a softmax, a layer
// norm, its gradient. One kernel can take each row through all of them, read
// the operands once and write nothing but what others read; the plan of a
// device that does so leaves the operands in place until then (PlanBuffersOf).
//
//   %max = reduce(%x) max            // [batch, length] of [batch, length,
//   vocab] %e   = map(%x, %max) [sub($0, $1); exp($2)] %sum = reduce(%e) sum %p
//   = map(%e, %sum) div         // a group of four
//
// The members of a group reduce over the same innermost dimensions, its
// columns; what they make has all dimensions of the row space or, reduced, all
// but the columns, in one order. Between them stands nothing that runs. A group
// has two members or more, one of them a reduction. Groups come in the order of
// the program and share no instruction, nor one that is `taken` by a group of
// another kind.
std::vector<std::vector<int>> FindRowGroups(const Program& program,
                                            const std::vector<bool>& taken);

}  // namespace mtf

#endif  // LOWERING_ROW_GROUPS_H_
