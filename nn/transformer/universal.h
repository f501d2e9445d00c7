// SPDX-License-Identifier: Apache-2.0
#ifndef NN_TRANSFORMER_UNIVERSAL_H_
#define NN_TRANSFORMER_UNIVERSAL_H_

#include <cstdint>
#include <functional>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/tensor.h"
#include "nn/models/transformer.h"

namespace mtf::nn {

// How the results of steps are combined where the number of steps adapts.
enum class Halting : uint8_t {
  // All steps for all positions; the result is that of the last.
  kNone,
  // The sum of the results, with weights that add up to 1 (Graves, 2016).
  kWeightedMean,
  // y <- weight * result + (1 - weight) * y, as in the listing of the paper of
  // universal transformers.
  kInterpolated,
};

struct UniversalOptions {
  int64_t steps = 6;  // at most
  Halting halting = Halting::kNone;
  // A position halts in the step in which its probabilities add up to more.
  double threshold = 0.99;
  // The sequence dimension: if it has a name, sinusoids of the position are
  // added to the state before each step.
  Dimension length = Dimension();
  // Whether sinusoids of the number of the step are added, too.
  bool step_signal = true;
  // Halt all positions of a sequence together, by their mean probability; needs
  // .length.
  bool per_sequence = false;
  std::string name = "universal";
};

struct Universal {
  Tensor output;  // in the shape of x
  // Empty without halting. F32 with the dimensions of `x` but the model
  // dimension (and .length, with .per_sequence): the steps of each position,
  // and the remainder, which is its weight of the last one.
  Tensor updates, remainders;
  // The mean over positions of updates + remainders, to be added to the loss
  // times a small factor. Its gradient is that of the remainders.
  Tensor ponder_cost;
};

// Applies `step` several times with the same parameters (universal transformer,
// Dehghani et al., 2019). With halting, each position has as many steps as it
// needs: before each step, sigmoid of a linear layer "halting" of its state is
// the probability that it ends there (adaptive computation time, Graves, 2016).
// The weight of a step is its probability, and that of the last one 1 minus
// their sum, the remainder; a position that has not halted does so in the last
// step.
//
//   const nn::Universal result = nn::UniversalTransformer(
//       x, [&](Tensor state) {
//         return nn::TransformerStack(state, options).output;
//       }, {.steps = 8, .halting = nn::Halting::kWeightedMean,
//           .length = length});
//   loss = loss + 0.01 * result.ponder_cost;
//
// The last dimension of `x` is the model dimension. Every step computes all
// positions, since shapes do not depend on data: halting saves no time here,
// it changes the function. `step` is called once for each step, in one scope.
//
// Records kInvalidArgument in the graph if `x` is not a float or a scalar,
// `step` is null or returns another shape, .steps is less than 1, .threshold
// outside [0, 1), or .length missing for .per_sequence. Returns empty Tensors
// if `x` is empty.
Universal UniversalTransformer(
    Tensor x, const Sublayer& step, UniversalOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_TRANSFORMER_UNIVERSAL_H_
