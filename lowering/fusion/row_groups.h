// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_ROW_GROUPS_H_
#define LOWERING_FUSION_ROW_GROUPS_H_

#include <vector>

#include "lowering/fusion/fused_group.h"
#include "lowering/program/program.h"

namespace mtf {

// Finds groups of maps and reductions over the same rows: a softmax, a layer
// norm, its gradient, a loss and its gradient. One kernel can process each row
// through all members, read the operands once and write only what others read.
//
//   %max = reduce(%x) max               // [batch] of [batch, vocab]
//   %e   = map(%x, %max) [sub($0, $1); exp($2)]
//   %sum = reduce(%e) sum
//   %all = reduce(%sum) sum             // over the batch: not a member
//   %p   = map(%e, %sum) div            // a group of four
//
// The members of a group reduce over the same innermost dimensions, its
// columns. Their results have all dimensions of the rows and the columns, those
// of the rows alone, or, as a scale does, those of the columns alone. A sum
// over the rows, as in the gradient of a scale, is a member too if no other
// member reads it.
//
// A group runs at its first member: everything that it reads is computed before
// that. So members may follow maps and reductions outside the group, as %p
// does, and the values that they read are freed earlier; but no other
// computation separates them. Members are connected by what they read and
// write. A group has at least two members, one of them a reduction. Groups are
// ordered by their first members and share no instruction with each other or
// with the groups that `is_grouped` marks.
std::vector<std::vector<int>> FindRowGroups(
    const Program& program, const std::vector<bool>& is_grouped);

// The groups for PlanBuffersOf: values without other readers have no memory,
// and a result may overwrite an operand, because each row is read before it is
// written.
std::vector<FusedGroup> FusedRows(const Program& program,
                                  const std::vector<std::vector<int>>& groups);

}  // namespace mtf

#endif  // LOWERING_FUSION_ROW_GROUPS_H_
