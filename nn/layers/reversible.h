// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_REVERSIBLE_H_
#define NN_LAYERS_REVERSIBLE_H_

#include <functional>
#include <source_location>
#include <utility>
#include <vector>

#include "mtf/tensor.h"

namespace mtf::nn {

// A stack of reversible residual layers (Gomez et al. 2017), which keeps the
// activations of one layer, however many there are: the gradient computes those
// of the others again, from the results backwards. Starts with (x1, x2) and
// replaces them, for each function f, by
//
//   (x2, x1 + f(x2))
//
// so that two consecutive functions, such as attention and feed-forward, are
// one reversible block. Returns the last pair.
//
//   const auto [y1, y2] = nn::ReversibleStack(
//       x, x,
//       {[=](Tensor x) {
//          return nn::SelfAttention(nn::LayerNorm(x, d_model), options);
//        },
//        [=](Tensor x) {
//          return nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu);
//        }});
//
// x1 and x2 have the same shape and float dtype, and so have the results of the
// functions. Each function is called in a scope of its own, and again when
// gradients are built, from copies that the graph keeps: capture by value.
// Random numbers are the same both times. The activations that are computed
// again differ from the first ones by rounding.
//
// Records kInvalidArgument in the graph if a tensor or a function is empty, a
// tensor belongs to another graph, or x2 or a result of a function has another
// shape or dtype than x1. Returns empty Tensors if x1 and x2 are empty.
std::pair<Tensor, Tensor> ReversibleStack(
    Tensor x1, Tensor x2, std::vector<std::function<Tensor(Tensor)>> functions,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_REVERSIBLE_H_
