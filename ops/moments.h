// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_MOMENTS_H_
#define OPS_MOMENTS_H_

#include <source_location>

#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

struct MomentsResult {
  Tensor mean;
  Tensor variance;  // of the population: divided by the number of elements
};

// The mean and the variance of the float `x` over `dims`. Both have the other
// dimensions of `x`, in their order, and its dtype, and both have gradients.
//
//   // [batch, d_model] -> two of [batch]
//   auto [mean, variance] = Moments(x, {d_model});
//   Tensor y = (x - mean) * Rsqrt(variance + 1e-6);
//
// Computed in f32, in two passes: the variance is the mean of the squared
// differences from the mean. So it is never negative, and a mean that is large
// compared with the differences costs no accuracy. If the layout shards `dims`,
// two tensors of the size of the mean are all_reduced.
//
// Over no elements, both are NaN. Records kInvalidArgument in the graph if `x`
// is not a float, or lacks a dimension of `dims` or has it in another size.
// Returns two empty Tensors if `x` is empty.
MomentsResult Moments(
    Tensor x, Shape dims,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_MOMENTS_H_
