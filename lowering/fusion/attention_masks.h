// SPDX-License-Identifier: Apache-2.0
//
// Finds the masks and biases of an attention, for find_attention.
#ifndef LOWERING_FUSION_ATTENTION_MASKS_H_
#define LOWERING_FUSION_ATTENTION_MASKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lowering/fusion/attention_formulas.h"
#include "lowering/fusion/attention_group.h"
#include "lowering/fusion/expression_numbering.h"
#include "lowering/program/program.h"

namespace mtf::internal {

// The dimension names of an attention.
struct AttentionNames {
  std::string batch, heads;  // "" where there is none
  std::string length, memory;
  std::string d, d_v;  // of keys and of values
};

// The extent of a shard along `name`, 1 if it lacks the dimension; and the
// stride in elements, 0 if it lacks the dimension.
int64_t LocalExtentOf(const ProgramValue& value, const std::string& name);
int64_t StrideOf(const ProgramValue& value, const std::string& name);

// Sets in `group` what `changes` to the scores refer to: whether the problem is
// causal, the values of `visible` and `added`, and the form of the bias that
// they make. Returns false if one of them is not a value computed before the
// forward members, or has another layout than the scores. `group->forward` must
// be set.
//
// The conjunction of a mask and the causal mask may be computed by a member.
bool MatchMasks(const Program& program, const std::vector<int>& producers,
                const AttentionNames& names, const ScoreChanges& changes,
                ExpressionNumbering& expressions, AttentionGroup* group);

}  // namespace mtf::internal

#endif  // LOWERING_FUSION_ATTENTION_MASKS_H_
