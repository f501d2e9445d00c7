// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/attention_masks.h"

namespace mtf::internal {
namespace {

using Mask = AttentionGroup::Mask;

class AttentionMaskMatcher {
 public:
  AttentionMaskMatcher(const Program& program,
                       const std::vector<int>& producers,
                       const AttentionNames& names,
                       ExpressionNumbering& expressions, AttentionGroup& group)
      : program_(program),
        producers_(producers),
        names_(names),
        expressions_(expressions),
        group_(group) {}

  bool Match(const ScoreChanges& changes) {
    group_.problem.causal = false;
    group_.visible = group_.added = {};
    if (changes.visible >= 0 && !MatchVisible(changes.visible)) return false;
    if (changes.added >= 0 && !FindValue(changes.added, &group_.added))
      return false;
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
  bool MatchVisible(int expression) {
    bool& causal = group_.problem.causal;
    const int causal_visibility =
        CausalVisibility(expressions_, names_.length, names_.memory);
    causal = expression == causal_visibility;
    if (causal || FindValue(expression, &group_.visible)) return true;
    const ExpressionNumbering::Expression conjunction =
        expressions_.at(expression);
    if (!conjunction.Is(ScalarFunction::kLogicalAnd)) return false;
    for (int side : {0, 1}) {
      if (conjunction.arguments[side] != causal_visibility) continue;
      causal = FindValue(conjunction.arguments[1 - side], &group_.visible);
      if (causal) return true;
    }
    return false;
  }

  // Finds an operand of the members that is `expression`, or whose cast to
  // float32 is.
  bool FindValue(int expression, Mask* mask) {
    for (int member : group_.forward) {
      for (int operand : program_.instructions[member].operands) {
        if (producers_[operand] >= group_.forward.front()) continue;
        const ProgramValue& value = program_.values[operand];
        const int number = expressions_.Of(operand);
        const bool matches =
            number == expression ||
            (IsFloat(value.dtype) &&
             expressions_.Cast(number, value.dtype, kFloat32) == expression);
        if (!matches) continue;
        *mask = {operand, StrideOf(value, names_.batch),
                 StrideOf(value, names_.heads), StrideOf(value, names_.length),
                 StrideOf(value, names_.memory)};
        return HasLayoutOfScores(value);
      }
    }
    return false;
  }

  // Whether the value's dimensions are dimensions of the scores, of equal
  // extents.
  bool HasLayoutOfScores(const ProgramValue& value) const {
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
  ExpressionNumbering& expressions_;
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
                ExpressionNumbering& expressions, AttentionGroup* group) {
  return AttentionMaskMatcher(program, producers, names, expressions, *group)
      .Match(changes);
}

}  // namespace mtf::internal
