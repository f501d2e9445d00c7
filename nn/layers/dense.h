// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_DENSE_H_
#define NN_LAYERS_DENSE_H_

#include <source_location>
#include <string>
#include <vector>

#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/layers/activations.h"
#include "nn/layers/initializers.h"

namespace mtf::nn {

struct DenseOptions {
  bool bias = true;
  Activation activation = nullptr;
  // Initial weights are normal with variance init_scale / fan_in, where fan_in
  // is the number of elements of `reduced` (He et al., 2015, with 2 for Relu).
  double init_scale = 1.0;
  // Used instead of `init_scale` if not null (nn/layers/initializers.h).
  Initializer init = nullptr;
  // Dimensions of `x` with a kernel and a bias of its own for each element,
  // such as experts. They come first in the shapes of both.
  Shape each = {};
  std::string name = "dense";
};

// A linear layer: multiplies `x` by a kernel [reduced..., output...], sums over
// `reduced`, adds a bias [output...] and applies the activation.
//
//   activation(sum over reduced of (x * kernel) + bias)
//
//   // [batch, length, d_model] -> [batch, length, heads, d_kv]
//   Tensor q = nn::Dense(x, {d_model}, {heads, d_kv}, {.bias = false});
//
// The result has the remaining dimensions of `x`, then those of `output`. If a
// name is in both `reduced` and `output`, the kernel calls the input side
// "<name>_in". The dtype is the activation dtype of the PrecisionScope, by
// default the dtype of `x`.
//
//   // Each expert has its kernel: [experts, tokens, d_model] -> [.., d_ff]
//   Tensor h = nn::Dense(x, {d_model}, {d_ff}, {.each = {experts}});
//
// In an AdapterScope (nn/layers/adapter.h), the layer may have an adapter.
//
// Records kInvalidArgument in the graph if `x` is not a float, lacks a
// dimension of `reduced` or `each` or has it in another size, has a dimension
// of `output` that is not in `reduced`, or already has "<name>_in"; if
// `reduced` and `each` share a name; if Shape::Validate rejects one of the
// shapes; or if init_scale is negative or not finite, or given together with
// init. Returns an empty Tensor if `x` is empty.
Tensor Dense(Tensor x, Shape reduced, Shape output, DenseOptions options = {},
             std::source_location location = std::source_location::current());

// The product of linear layers "factor_0", "factor_1", ... of `x`, each with an
// activation, which may be null: gated linear units (Dauphin et al., 2017;
// Shazeer, 2020). FeedForward with .gated is the one of two factors.
//
//   // GEGLU: gelu(x w0 + b0) * (x w1 + b1)
//   Tensor h = nn::DenseProduct(x, {d_model}, {d_ff}, {Gelu, nullptr});
//
// Records kInvalidArgument in the graph if there is no activation, if
// .activation is set, and for the errors of Dense.
Tensor DenseProduct(
    Tensor x, Shape reduced, Shape output, std::vector<Activation> activations,
    DenseOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_DENSE_H_
