// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_FUSE_ROWS_H_
#define LOWERING_PASSES_FUSE_ROWS_H_

#include "absl/status/status.h"
#include "lowering/fusion/fusion_capabilities.h"
#include "lowering/program/program.h"

namespace mtf {

// Groups maps and reductions over the same rows: a softmax, a layer norm, its
// gradient, a loss and its gradient. One kernel can process each row through
// all members, read the operands once and write only what others read.
//
//   before  %max = reduce(%x) max               // [batch] of [batch, vocab]
//           %e   = map(%x, %max) [sub($0, $1); exp($2)]
//           %sum = reduce(%e) sum
//           %all = reduce(%sum) sum             // over the batch: not a member
//           %p   = map(%e, %sum) div
//   after   group rows(%max, %e, %sum, %p)
//
// The members of a group reduce over the same innermost dimensions, its
// columns. Their results have all dimensions of the rows and the columns, those
// of the rows alone, or, as a scale does, those of the columns alone. A sum
// over the rows, as in the gradient of a scale, is a member too if no other
// member reads it. On some devices a group may consist of such sums and maps,
// as for the statistics of a batch norm, whose columns are its features.
//
// A group runs at its first member: everything that it reads is computed before
// that. So members may follow maps and reductions outside the group, as %p
// does, and the values that they read are freed earlier; but no other
// computation separates them. Members are connected by what they read and
// write. A group has at least two members, one of them a reduction.
//
// Runs after fuse_epilogues and before fuse_bias_gradients: a sum that fuses
// with the producer of its operand costs less here.
absl::Status FuseRows(const FusionCapabilities& device, Program& program);

}  // namespace mtf

#endif  // LOWERING_PASSES_FUSE_ROWS_H_
