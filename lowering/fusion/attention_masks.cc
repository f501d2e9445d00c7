// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/attention_masks.h"

namespace mtf::internal {
namespace {

using Mask = AttentionGroup::Mask;

class Matcher {
 public:
  Matcher(const Program& program, const std::vector<int>& producers,
          const AttentionNames& names, ExpressionNumbering& terms,
          AttentionGroup& group)
      : program_(program),
        producers_(producers),
        names_(names),
        terms_(terms),
        group_(group) {}

  bool Match(const ScoreChanges& changes) {
    group_.problem.causal = false;
    group_.visible = group_.added = {};
    if (changes.visible >= 0 && !MatchVisible(changes.visible)) return false;
    if (changes.added >= 0 && !Find(changes.added, &group_.added)) return false;
    AttentionProblem::Bias& bias = group_.problem.bias;
    bias = {};
    for (const Mask& mask : {group_.visible, group_.added}) {
      if (mask.value < 0) continue;
      const Shape& shape = program_.values[mask.value].shape;
      bias.given = true;
      bias.batch |= shape.Contains(names_.batch);
      bias.heads |= shape.Contains(names_.heads);
      bias.length |= shape.Contains(names_.length);
    }
    return true;
  }

 private:
  bool MatchVisible(int term) {
    bool& causal = group_.problem.causal;
    const int past = Sees(terms_, names_.length, names_.memory);
    causal = term == past;
    if (causal || Find(term, &group_.visible)) return true;
    const ExpressionNumbering::Term both = terms_.at(term);
    if (!both.Is(ScalarFunction::kLogicalAnd)) return false;
    for (int side : {0, 1}) {
      if (both.arguments[side] != past) continue;
      causal = Find(both.arguments[1 - side], &group_.visible);
      if (causal) return true;
    }
    return false;
  }

  // A value that is `term`, or of which that is the cast to float32.
  bool Find(int term, Mask* mask) {
    for (int member : group_.forward) {
      for (int operand : program_.instructions[member].operands) {
        if (producers_[operand] >= group_.forward.front()) continue;
        const ProgramValue& value = program_.values[operand];
        const int own = terms_.Of(operand);
        const bool is =
            own == term || (IsFloat(value.dtype) &&
                            terms_.Cast(own, value.dtype, kFloat32) == term);
        if (!is) continue;
        *mask = {operand, StrideOf(value, names_.batch),
                 StrideOf(value, names_.heads), StrideOf(value, names_.length),
                 StrideOf(value, names_.memory)};
        return LiesAsScores(value);
      }
    }
    return false;
  }

  bool LiesAsScores(const ProgramValue& value) const {
    const ProgramValue& scores = program_.values[group_.scores];
    for (int i = 0; i < value.shape.rank(); ++i) {
      const std::string& name = value.shape[i].name;
      if (!scores.shape.Contains(name) ||
          LocalExtentOf(scores, name) != value.local[i]) {
        return false;
      }
    }
    return true;
  }

  const Program& program_;
  const std::vector<int>& producers_;
  const AttentionNames& names_;
  ExpressionNumbering& terms_;
  AttentionGroup& group_;
};

}  // namespace

int64_t LocalExtentOf(const ProgramValue& value, const std::string& name) {
  for (int i = 0; i < value.shape.rank(); ++i) {
    if (value.shape[i].name == name) return value.local[i];
  }
  return 1;
}

int64_t StrideOf(const ProgramValue& value, const std::string& name) {
  int64_t stride = 1;
  for (int i = value.shape.rank() - 1; i >= 0; --i) {
    if (value.shape[i].name == name) return stride;
    stride *= value.local[i];
  }
  return 0;
}

bool MatchMasks(const Program& program, const std::vector<int>& producers,
                const AttentionNames& names, const ScoreChanges& changes,
                ExpressionNumbering& terms, AttentionGroup* group) {
  return Matcher(program, producers, names, terms, *group).Match(changes);
}

}  // namespace mtf::internal
