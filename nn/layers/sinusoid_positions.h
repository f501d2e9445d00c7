// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_SINUSOID_POSITIONS_H_
#define NN_LAYERS_SINUSOID_POSITIONS_H_

#include <source_location>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct SinusoidPositionsOptions {
  double base = 10000;
};

// Sines and cosines of positions in geometric frequencies (Vaswani et al.,
// 2017), f32, to be added to an embedding:
//
//   result[..., 2 i]     = sin(position / base^(2 i / d_model))
//   result[..., 2 i + 1] = cos(position / base^(2 i / d_model))
//
//   // [length] -> [length, d_model]
//   x = x + nn::SinusoidPositions(Range(graph, length), d_model);
//
// `positions` are integers or floats of any shape, such as [batch, length] for
// documents that share a row, or [batch] in a decoding step.
//
// Records kInvalidArgument in the graph if `positions` are bool or have
// `d_model`, Shape::Validate rejects the result, or the base is not positive
// and finite. Returns an empty Tensor if `positions` are empty.
Tensor SinusoidPositions(
    Tensor positions, Dimension d_model, SinusoidPositionsOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_SINUSOID_POSITIONS_H_
