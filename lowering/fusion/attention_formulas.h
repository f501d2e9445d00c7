// SPDX-License-Identifier: Apache-2.0
//
// What the layers compute between the einsums of attention, as formulas: the
// pattern that find_attention looks for.
#ifndef LOWERING_FUSION_ATTENTION_FORMULAS_H_
#define LOWERING_FUSION_ATTENTION_FORMULAS_H_

#include <optional>
#include <string>

#include "lowering/fusion/expression_numbering.h"
#include "mtf/dtype.h"

namespace mtf::internal {

// What is done to scores before their softmax, in this order; -1: it is not.
//
//   select(visible, scores * scale + added, -inf)
struct ScoreChanges {
  int scale = -1;  // a number
  int added = -1;
  int visible = -1;  // a boolean
};

// Those of `weights`, in whatever dtype, if it is made as the softmax of
// `scores` is; what SoftmaxOf gives of them may still be another formula.
std::optional<ScoreChanges> ReadChanges(const ExpressionNumbering& terms,
                                        int weights, int scores, DType narrow);

// The softmax of `scores` over `memory`.
struct SoftmaxFormulas {
  int powers = -1, sum = -1, inverse = -1, weights = -1;
};
SoftmaxFormulas SoftmaxOf(ExpressionNumbering& terms, int scores, DType narrow,
                          const std::string& memory,
                          const ScoreChanges& changes);

// The gradient of the scores, of that of the weights: as the gradients in
// mtf/scalar_functions.h and those of the reductions make it.
int SoftmaxGradientOf(ExpressionNumbering& terms,
                      const SoftmaxFormulas& softmax, int d_weights,
                      DType narrow, const std::string& memory,
                      const ScoreChanges& changes);

// Whether place i of `length` sees place j of `memory`: where i >= j.
int Sees(ExpressionNumbering& terms, const std::string& length,
         const std::string& memory);

}  // namespace mtf::internal

#endif  // LOWERING_FUSION_ATTENTION_FORMULAS_H_
