// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/attention_formulas.h"

#include <limits>

namespace mtf::internal {
namespace {

using F = ScalarFunction;
using Kind = ExpressionNumbering::Kind;

bool IsCastOf(const ExpressionNumbering& expressions, int expression,
              int narrow) {
  const ExpressionNumbering::Expression& e = expressions.at(expression);
  return e.kind == Kind::kCast && e.arguments[0] == narrow;
}

// Whether `expression` is the cast scores, or those times a literal, whose
// number is stored in `scale`.
bool AreScores(const ExpressionNumbering& expressions, int expression,
               int scores, int* scale) {
  if (IsCastOf(expressions, expression, scores)) return true;
  const ExpressionNumbering::Expression& e = expressions.at(expression);
  if (!e.Is(F::kMultiply)) return false;
  for (int side : {0, 1}) {
    const int other = e.arguments[1 - side];
    if (IsCastOf(expressions, e.arguments[side], scores) &&
        expressions.at(other).kind == Kind::kLiteral) {
      *scale = other;
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<ScoreChanges> MatchScoreChanges(
    const ExpressionNumbering& expressions, int weights, int scores,
    DType narrow) {
  const ExpressionNumbering::Expression* e = &expressions.at(weights);
  if (e->kind != Kind::kCast || e->dtype != narrow) return std::nullopt;
  e = &expressions.at(e->arguments[0]);
  if (!e->Is(F::kMultiply)) return std::nullopt;
  for (int side : {0, 1}) {
    const ExpressionNumbering::Expression& exponentials =
        expressions.at(e->arguments[side]);
    if (!exponentials.Is(F::kExp)) continue;
    const ExpressionNumbering::Expression& shifted =
        expressions.at(exponentials.arguments[0]);
    if (!shifted.Is(F::kSubtract)) continue;
    int logits = shifted.arguments[0];
    ScoreChanges changes;
    if (expressions.at(logits).Is(F::kSelect)) {
      changes.visible = expressions.at(logits).arguments[0];
      logits = expressions.at(logits).arguments[1];
    }
    if (expressions.at(logits).Is(F::kAdd)) {
      const ExpressionNumbering::Expression& sum = expressions.at(logits);
      const int scores_side =
          AreScores(expressions, sum.arguments[0], scores, &changes.scale) ? 0
                                                                           : 1;
      logits = sum.arguments[scores_side];
      changes.added = sum.arguments[1 - scores_side];
    }
    if (AreScores(expressions, logits, scores, &changes.scale)) return changes;
  }
  return std::nullopt;
}

int CausalVisibility(ExpressionNumbering& expressions,
                     const std::string& length, const std::string& memory) {
  return expressions.Map(F::kGreaterEqual, kBool,
                         {expressions.Iota(length), expressions.Iota(memory)});
}

SoftmaxFormulas SoftmaxOf(ExpressionNumbering& expressions, int scores,
                          DType narrow, const std::string& memory,
                          const ScoreChanges& changes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const auto literal = [&](double x) {
    return expressions.Literal(x, kFloat32);
  };
  int logits = expressions.Cast(scores, narrow, kFloat32);
  if (changes.scale >= 0) {
    logits = expressions.Map(F::kMultiply, kFloat32, {logits, changes.scale});
  }
  if (changes.added >= 0) {
    logits = expressions.Map(F::kAdd, kFloat32, {logits, changes.added});
  }
  if (changes.visible >= 0) {
    logits = expressions.Map(F::kSelect, kFloat32,
                             {changes.visible, logits, literal(-kInfinity)});
  }
  const int maximum = expressions.Map(
      F::kMaximum, kFloat32,
      {expressions.Reduce(ReduceKind::kMax, memory, logits), literal(kLowest)});
  SoftmaxFormulas f;
  f.exponentials = expressions.Map(
      F::kExp, kFloat32,
      {expressions.Map(F::kSubtract, kFloat32, {logits, maximum})});
  f.sum = expressions.Reduce(ReduceKind::kSum, memory, f.exponentials);
  f.inverse = expressions.Map(
      F::kReciprocal, kFloat32,
      {expressions.Map(F::kMaximum, kFloat32, {f.sum, literal(0.5)})});
  f.weights = expressions.Cast(
      expressions.Map(F::kMultiply, kFloat32, {f.exponentials, f.inverse}),
      kFloat32, narrow);
  return f;
}

int SoftmaxGradientOf(ExpressionNumbering& expressions,
                      const SoftmaxFormulas& softmax, int d_weights,
                      DType narrow, const std::string& memory,
                      const ScoreChanges& changes) {
  const auto literal = [&](double x) {
    return expressions.Literal(x, kFloat32);
  };
  const auto mul = [&](int x, int y) {
    return expressions.Map(F::kMultiply, kFloat32, {x, y});
  };
  const auto select = [&](int condition, int x, int y) {
    return expressions.Map(F::kSelect, kFloat32, {condition, x, y});
  };
  const int wide = expressions.Cast(d_weights, narrow, kFloat32);
  const int d_inverse = expressions.Reduce(ReduceKind::kSum, memory,
                                           mul(wide, softmax.exponentials));
  // The gradients of the reciprocal and of the maximum inside it, where a tie
  // gives one half.
  const int d_max =
      expressions.Map(F::kNegate, kFloat32,
                      {mul(mul(d_inverse, softmax.inverse), softmax.inverse)});
  const int otherwise =
      select(expressions.Map(F::kLess, kBool, {softmax.sum, literal(0.5)}),
             literal(0), mul(literal(0.5), d_max));
  const int d_sum =
      select(expressions.Map(F::kGreater, kBool, {softmax.sum, literal(0.5)}),
             d_max, otherwise);
  int d_logits = mul(
      expressions.Map(F::kAdd, kFloat32, {d_sum, mul(wide, softmax.inverse)}),
      softmax.exponentials);
  if (changes.visible >= 0) {
    d_logits = select(changes.visible, d_logits, literal(0));
  }
  if (changes.scale >= 0) d_logits = mul(d_logits, changes.scale);
  return expressions.Cast(d_logits, kFloat32, narrow);
}

}  // namespace mtf::internal
