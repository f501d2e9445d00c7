// SPDX-License-Identifier: Apache-2.0
//
// The expressions that layers compute between the einsums of attention: the
// patterns that find_attention matches.
#ifndef LOWERING_FUSION_ATTENTION_FORMULAS_H_
#define LOWERING_FUSION_ATTENTION_FORMULAS_H_

#include <optional>
#include <string>

#include "lowering/fusion/expression_numbering.h"
#include "mtf/dtype.h"

namespace mtf::internal {

// Optional changes to the scores before their softmax, in this order;
// expression numbers, -1 if absent:
//
//   select(visible, scores * scale + added, -inf)
struct ScoreChanges {
  int scale = -1;  // a number
  int added = -1;
  int visible = -1;  // a boolean
};

// If `weights` looks like the softmax of `scores`, in any dtype, returns the
// changes to the scores. The caller compares `weights` with SoftmaxOf: it may
// still be another expression.
std::optional<ScoreChanges> MatchScoreChanges(
    const ExpressionNumbering& expressions, int weights, int scores,
    DType narrow);

// The expressions of the softmax of `scores` over `memory`.
struct SoftmaxFormulas {
  int exponentials = -1, sum = -1, inverse = -1, weights = -1;
};
SoftmaxFormulas SoftmaxOf(ExpressionNumbering& expressions, int scores,
                          DType narrow, const std::string& memory,
                          const ScoreChanges& changes);

// The gradient of the scores, given the gradient of the weights, as the
// gradients in mtf/scalar_functions.h and those of reductions compute it.
int SoftmaxGradientOf(ExpressionNumbering& expressions,
                      const SoftmaxFormulas& softmax, int d_weights,
                      DType narrow, const std::string& memory,
                      const ScoreChanges& changes);

// Causal visibility: position i of `length` attends to position j of `memory`
// if i >= j.
int CausalVisibility(ExpressionNumbering& expressions,
                     const std::string& length, const std::string& memory);

}  // namespace mtf::internal

#endif  // LOWERING_FUSION_ATTENTION_FORMULAS_H_
