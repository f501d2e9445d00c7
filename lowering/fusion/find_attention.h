// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_FIND_ATTENTION_H_
#define LOWERING_FUSION_FIND_ATTENTION_H_

#include <functional>
#include <vector>

#include "lowering/fusion/attention_group.h"
#include "lowering/program/program.h"

namespace mtf {

// The attention of a program, as AttentionGroup has it: those that are whole on
// a device in length, memory and d, whose values nobody else reads, and of
// which CheckFusedAttention and `accepts`, where there is one, take both
// problems. They share no instruction. Takes time in proportion to the program.
//
//   for (const AttentionGroup& group : FindAttention(program)) ...
std::vector<AttentionGroup> FindAttention(
    const Program& program,
    const std::function<bool(const AttentionProblem&)>& accepts = {});

// Whether a plan of memory is for a device that makes `value` inside of a
// kernel, and so has no memory for it. False before memory is planned.
bool IsInsideOfKernel(const Program& program, int value);

// Those of them that the plan of `program` (Program::buffers) runs fused: it
// has no memory for their scores. None before memory is planned.
std::vector<AttentionGroup> FindPlannedAttention(const Program& program);

}  // namespace mtf

#endif  // LOWERING_FUSION_FIND_ATTENTION_H_
