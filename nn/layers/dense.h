// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_DENSE_H_
#define NN_LAYERS_DENSE_H_

#include <source_location>
#include <string>

#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/layers/activations.h"

namespace mtf::nn {

struct DenseOptions {
  bool bias = true;
  Activation activation = nullptr;
  // Weights start normal with variance init_scale / fan_in (He et al., 2015,
  // who take 2 for Relu), where fan_in is the number of elements of `reduced`.
  double init_scale = 1.0;
  std::string name = "dense";
};

// A linear layer: multiplies `x` by a kernel [reduced..., output...], which
// sums over `reduced`, then adds a bias [output...] and applies the activation.
//
//   activation(sum over reduced of (x * kernel) + bias)
//
//   // [batch, length, d_model] -> [batch, length, heads, d_kv]
//   Tensor q = nn::Dense(x, {d_model}, {heads, d_kv}, {.bias = false});
//
// The result has the remaining dimensions of `x`, then those of `output`. A
// name may be in both `reduced` and `output`: the side of `x` is then called
// "<name>_in". It computes in the activations' dtype of the precision
// (PrecisionScope), by default the float dtype of `x`.
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for an x that is no float, a dimension of `reduced` that it
// lacks or has in another size, one of `output` that it has besides `reduced`,
// either shape if Shape::Validate refuses it, a "<name>_in" that x already has,
// and an init_scale that is negative or not finite. An empty `x` gives an empty
// Tensor.
Tensor Dense(Tensor x, Shape reduced, Shape output, DenseOptions options = {},
             std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_DENSE_H_
