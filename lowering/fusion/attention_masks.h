// SPDX-License-Identifier: Apache-2.0
//
// What else than the past says which places of an attention see others, for
// find_attention.
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

// Names of the dimensions of an attention.
struct AttentionNames {
  std::string batch, heads;  // "" where there is none
  std::string length, memory, d;
};

// Of the part of a value that a device has: its extent along `name`, 1 where it
// has no such dimension, and the places between neighbours, 0 there.
int64_t LocalExtentOf(const ProgramValue& value, const std::string& name);
int64_t StrideOf(const ProgramValue& value, const std::string& name);

// Fills in what `changes` of the scores of `group` come from: whether its
// problem is causal, the values of `visible` and `added`, and the form of the
// bias that they make. False where one of them is no value that is there before
// the forward members (which are known), or does not lie as the scores do.
//
// "and" of a mask and the past may be made among the members.
bool MatchMasks(const Program& program, const std::vector<int>& producers,
                const AttentionNames& names, const ScoreChanges& changes,
                ExpressionNumbering& terms, AttentionGroup* group);

}  // namespace mtf::internal

#endif  // LOWERING_FUSION_ATTENTION_MASKS_H_
