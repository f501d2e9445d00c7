// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_ROW_GROUPS_H_
#define LOWERING_FUSION_ROW_GROUPS_H_

#include <vector>

#include "lowering/fusion/fused_group.h"
#include "lowering/program/program.h"

namespace mtf {

// Maps and reductions that work on the same rows: a softmax, a layer norm, its
// gradient, a loss and its gradient. One kernel can take each row through all
// of them, read the operands once and write nothing but what others read.
//
//   %max = reduce(%x) max               // [batch] of [batch, vocab]
//   %e   = map(%x, %max) [sub($0, $1); exp($2)]
//   %sum = reduce(%e) sum
//   %all = reduce(%sum) sum             // over the batch: left out
//   %p   = map(%e, %sum) div            // a group of four
//
// The members of a group reduce over the same innermost dimensions, its
// columns. What they make has all dimensions of the rows and the columns, or
// those of the rows alone, or, as a scale does, those of the columns alone. A
// sum over the rows, as in the gradient of a scale, is a member too: nothing
// else in the group reads it.
//
// A group runs where its first member stands: what others make for it stands
// before that. So members may stand behind maps and reductions that are none,
// as %p does, and what they read is held no longer for that; but nothing else
// that runs is between them. Members hang together by what they read and make.
// A group has two or more, one of them a reduction. Groups come in the order of
// their first members and share no instruction, nor one that is `taken` by a
// group of another kind.
std::vector<std::vector<int>> FindRowGroups(const Program& program,
                                            const std::vector<bool>& taken);

// Such groups as the plan of a device takes them that runs each as one kernel:
// what nobody else reads has no memory, and a result may take that of an
// operand, since each row is read before it is written.
std::vector<FusedGroup> FusedRows(const Program& program,
                                  const std::vector<std::vector<int>>& groups);

}  // namespace mtf

#endif  // LOWERING_FUSION_ROW_GROUPS_H_
