// SPDX-License-Identifier: Apache-2.0
#include "lowering/attention_formulas.h"

#include <limits>

namespace mtf::internal {
namespace {

using F = ScalarFunction;

}  // namespace

int Sees(Terms& terms, const std::string& length, const std::string& memory) {
  return terms.Map(F::kGreaterEqual, kBool,
                   {terms.Iota(length), terms.Iota(memory)});
}

SoftmaxFormulas SoftmaxOf(Terms& terms, int scores, DType narrow,
                          const std::string& length, const std::string& memory,
                          bool causal) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const auto literal = [&](double x) { return terms.Literal(x, kFloat32); };
  int logits = terms.Cast(scores, narrow, kFloat32);
  if (causal) {
    logits =
        terms.Map(F::kSelect, kFloat32,
                  {Sees(terms, length, memory), logits, literal(-kInfinity)});
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

int SoftmaxGradientOf(Terms& terms, const SoftmaxFormulas& softmax,
                      int d_weights, DType narrow, const std::string& length,
                      const std::string& memory, bool causal) {
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
  if (causal) {
    d_logits = select(Sees(terms, length, memory), d_logits, literal(0));
  }
  return terms.Cast(d_logits, kFloat32, narrow);
}

}  // namespace mtf::internal
