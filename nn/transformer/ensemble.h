// SPDX-License-Identifier: Apache-2.0
//
// Ensembles: models of the same shape that one program trains side by side. The
// members are a dimension that activations and parameters have, so one rule of
// the layout puts them on devices of their own:
//
//   ensemble:data
//
// The option .each of layers, and .ensemble of stacks and models, gives
// parameters this dimension. The members differ by their initial values and by
// their dropout. A loss is the mean over all members, so the gradient of each
// is that of its own loss divided by their number.
#ifndef NN_TRANSFORMER_ENSEMBLE_H_
#define NN_TRANSFORMER_ENSEMBLE_H_

#include <cstdint>
#include <source_location>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

enum class EnsembleReduction : uint8_t {
  kMeanProbability,  // the arithmetic mean of probabilities
  kMeanLogit,        // their geometric mean, up to a constant
};

// The logits of an ensemble as one model, without the dimension `ensemble`: of
// the mean of the probabilities, as log probabilities, or the mean of logits.
//
//   // [ensemble, batch, length, vocab] -> [batch, length, vocab]
//   Tensor logits = nn::EnsembleLogits(nn::LanguageModelLogits(model),
//                                      ensemble, vocab);
//
// Those of one member are Index(logits, "ensemble", member). Computed in f32.
// Records kInvalidArgument in the graph if `logits` are not floats, lack one of
// the two dimensions, or have it in another size. Returns an empty Tensor if
// `logits` are empty.
Tensor EnsembleLogits(
    Tensor logits, Dimension ensemble, Dimension vocab,
    EnsembleReduction reduction = EnsembleReduction::kMeanProbability,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_TRANSFORMER_ENSEMBLE_H_
