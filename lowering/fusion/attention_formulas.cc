// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/attention_formulas.h"

#include <limits>

namespace mtf::internal {
namespace {

using F = ScalarFunction;
using Kind = ExpressionNumbering::Kind;

bool IsCastOf(const ExpressionNumbering& terms, int term, int narrow) {
  const ExpressionNumbering::Term& t = terms.at(term);
  return t.kind == Kind::kCast && t.arguments[0] == narrow;
}

// Whether `term` is the scores, cast, or those times a number, which goes to
// `scale`.
bool AreScores(const ExpressionNumbering& terms, int term, int scores,
               int* scale) {
  if (IsCastOf(terms, term, scores)) return true;
  const ExpressionNumbering::Term& t = terms.at(term);
  if (!t.Is(F::kMultiply)) return false;
  for (int side : {0, 1}) {
    const int other = t.arguments[1 - side];
    if (IsCastOf(terms, t.arguments[side], scores) &&
        terms.at(other).kind == Kind::kLiteral) {
      *scale = other;
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<ScoreChanges> ReadChanges(const ExpressionNumbering& terms,
                                        int weights, int scores, DType narrow) {
  const ExpressionNumbering::Term* t = &terms.at(weights);
  if (t->kind != Kind::kCast || t->dtype != narrow) return std::nullopt;
  t = &terms.at(t->arguments[0]);
  if (!t->Is(F::kMultiply)) return std::nullopt;
  for (int side : {0, 1}) {
    const ExpressionNumbering::Term& powers = terms.at(t->arguments[side]);
    if (!powers.Is(F::kExp)) continue;
    const ExpressionNumbering::Term& shifted = terms.at(powers.arguments[0]);
    if (!shifted.Is(F::kSubtract)) continue;
    int logits = shifted.arguments[0];
    ScoreChanges changes;
    if (terms.at(logits).Is(F::kSelect)) {
      changes.visible = terms.at(logits).arguments[0];
      logits = terms.at(logits).arguments[1];
    }
    if (terms.at(logits).Is(F::kAdd)) {
      const ExpressionNumbering::Term& sum = terms.at(logits);
      const int which =
          AreScores(terms, sum.arguments[0], scores, &changes.scale) ? 0 : 1;
      logits = sum.arguments[which];
      changes.added = sum.arguments[1 - which];
    }
    if (AreScores(terms, logits, scores, &changes.scale)) return changes;
  }
  return std::nullopt;
}

int Sees(ExpressionNumbering& terms, const std::string& length,
         const std::string& memory) {
  return terms.Map(F::kGreaterEqual, kBool,
                   {terms.Iota(length), terms.Iota(memory)});
}

SoftmaxFormulas SoftmaxOf(ExpressionNumbering& terms, int scores, DType narrow,
                          const std::string& memory,
                          const ScoreChanges& changes) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const auto literal = [&](double x) { return terms.Literal(x, kFloat32); };
  int logits = terms.Cast(scores, narrow, kFloat32);
  if (changes.scale >= 0) {
    logits = terms.Map(F::kMultiply, kFloat32, {logits, changes.scale});
  }
  if (changes.added >= 0) {
    logits = terms.Map(F::kAdd, kFloat32, {logits, changes.added});
  }
  if (changes.visible >= 0) {
    logits = terms.Map(F::kSelect, kFloat32,
                       {changes.visible, logits, literal(-kInfinity)});
  }
  const int most = terms.Map(
      F::kMaximum, kFloat32,
      {terms.Reduce(ReduceKind::kMax, memory, logits), literal(kLowest)});
  SoftmaxFormulas f;
  f.powers = terms.Map(F::kExp, kFloat32,
                       {terms.Map(F::kSubtract, kFloat32, {logits, most})});
  f.sum = terms.Reduce(ReduceKind::kSum, memory, f.powers);
  f.inverse =
      terms.Map(F::kReciprocal, kFloat32,
                {terms.Map(F::kMaximum, kFloat32, {f.sum, literal(0.5)})});
  f.weights =
      terms.Cast(terms.Map(F::kMultiply, kFloat32, {f.powers, f.inverse}),
                 kFloat32, narrow);
  return f;
}

int SoftmaxGradientOf(ExpressionNumbering& terms,
                      const SoftmaxFormulas& softmax, int d_weights,
                      DType narrow, const std::string& memory,
                      const ScoreChanges& changes) {
  const auto literal = [&](double x) { return terms.Literal(x, kFloat32); };
  const auto mul = [&](int x, int y) {
    return terms.Map(F::kMultiply, kFloat32, {x, y});
  };
  const auto select = [&](int condition, int x, int y) {
    return terms.Map(F::kSelect, kFloat32, {condition, x, y});
  };
  const int wide = terms.Cast(d_weights, narrow, kFloat32);
  const int d_inverse =
      terms.Reduce(ReduceKind::kSum, memory, mul(wide, softmax.powers));
  // Of the reciprocal, and of the maximum that it is of: a tie halves.
  const int d_max =
      terms.Map(F::kNegate, kFloat32,
                {mul(mul(d_inverse, softmax.inverse), softmax.inverse)});
  const int otherwise =
      select(terms.Map(F::kLess, kBool, {softmax.sum, literal(0.5)}),
             literal(0), mul(literal(0.5), d_max));
  const int d_sum =
      select(terms.Map(F::kGreater, kBool, {softmax.sum, literal(0.5)}), d_max,
             otherwise);
  int d_logits =
      mul(terms.Map(F::kAdd, kFloat32, {d_sum, mul(wide, softmax.inverse)}),
          softmax.powers);
  if (changes.visible >= 0) {
    d_logits = select(changes.visible, d_logits, literal(0));
  }
  if (changes.scale >= 0) d_logits = mul(d_logits, changes.scale);
  return terms.Cast(d_logits, kFloat32, narrow);
}

}  // namespace mtf::internal
