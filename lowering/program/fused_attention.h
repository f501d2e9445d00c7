// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_FUSED_ATTENTION_H_
#define LOWERING_PROGRAM_FUSED_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "lowering/program/attention_problem.h"
#include "lowering/program/program.h"
#include "mtf/attention.h"

namespace mtf {

// Which attentions are instructions of a device. The others are composed of
// einsums, maps and reductions.
enum class AttentionSupport : uint8_t {
  kNone,
  kFusedKernels,  // what libraries of fused kernels take: CheckFusedAttention
  kAll,
};

// Returns OK if fused kernels support `attention` on a device with `length`
// queries, else kUnimplemented with the reason: the limits of
// CheckFusedAttention(AttentionProblem), and
//
// * q, k, v and the output have the same batch dimensions, at most two, and
//   their depth last; all depths are equal;
// * no window, soft cap, dropout, offset, extra logit, and no gradient of the
//   bias or from the logsumexp.
absl::Status CheckFusedAttention(const AttentionSignature& attention,
                                 int64_t length);

// An instruction attention or attention_gradient that CheckFusedAttention
// accepts, on one device, after shard_shapes.
AttentionProblem AttentionProblemOf(const Program& program,
                                    const Instruction& instruction);

// The strides of a mask or a bias along the dimensions of the logits, in
// elements of one device; 0 along those that it lacks.
struct LogitStrides {
  int64_t batch = 0, heads = 0, length = 0, memory = 0;
};
LogitStrides LogitStridesOf(const Program& program,
                            const Instruction& attention, int value);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_FUSED_ATTENTION_H_
