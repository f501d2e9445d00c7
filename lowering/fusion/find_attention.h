// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_FIND_ATTENTION_H_
#define LOWERING_FUSION_FIND_ATTENTION_H_

#include <functional>
#include <vector>

#include "lowering/fusion/attention_group.h"
#include "lowering/program/program.h"

namespace mtf {

// Finds the attention of a program (AttentionGroup): those whose length, memory
// and d are not sharded, whose intermediate values have no other readers, and
// whose forward and backward problem CheckFusedAttention and `accepts`, if
// given, support. The groups share no instruction. Takes linear time.
//
//   for (const AttentionGroup& group : FindAttention(program)) ...
std::vector<AttentionGroup> FindAttention(
    const Program& program,
    const std::function<bool(const AttentionProblem&)>& accepts = {});

// Whether the memory plan assumes that `value` is internal to a fused kernel
// and so has no memory. False before memory is planned.
bool IsInternalToKernel(const Program& program, int value);

// The attention that the plan of `program` (Program::buffers) assumes to be
// fused: their scores have no memory. Empty before memory is planned.
std::vector<AttentionGroup> FindPlannedAttention(const Program& program);

}  // namespace mtf

#endif  // LOWERING_FUSION_FIND_ATTENTION_H_
