// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_GROUP_NORM_H_
#define NN_LAYERS_GROUP_NORM_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct GroupNormOptions {
  double epsilon = 1e-5;
  bool scale = true;  // multiply by a parameter [channels], initially 1
  bool bias = true;   // add a parameter [channels], initially 0
  std::string name = "group_norm";
};

// Group normalization (Wu and He, 2018): normalizes each of `groups` parts of
// `channels`, over its channels and the dimensions `spatial`.
//
//   (x - mean) / sqrt(variance + epsilon) * scale + bias
//
//   // GroupNorm(8, 64) of PyTorch, for [batch, height, width, channels:64]
//   Tensor y = nn::GroupNorm(x, channels, 8, {height, width});
//
// One group per channel is an instance normalization; one group in all is a
// layer normalization over channels and spatial dimensions. Unlike BatchNorm it
// does not depend on other examples and needs no state. Where a spatial
// dimension or `channels` is sharded, only sums per channel are reduced, first
// those of `x`, then those of the squared distances from the mean. Computed in
// f32; the dtype of the result is that of LayerNorm.
//
// Records kInvalidArgument in the graph if `x` is not a float, lacks `channels`
// or a dimension of `spatial` or has it in another size; if `groups` does not
// divide `channels`; or if epsilon is not positive and finite in f32. Returns
// an empty Tensor if `x` is empty.
Tensor GroupNorm(
    Tensor x, const Dimension& channels, int64_t groups, const Shape& spatial,
    const GroupNormOptions& options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_GROUP_NORM_H_
