// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_POOL_H_
#define OPS_POOL_H_

#include <cstdint>
#include <source_location>

#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "ops/windows.h"

namespace mtf {

// How windows of a pooling lie along each of its dimensions. For dimensions
// with different options, call the function once for each.
struct PoolOptions {
  int64_t stride = 0;  // 0: the size of the window
  int64_t dilation = 1;
  WindowPadding padding = WindowPadding::kValid;
  int64_t before = 0, after = 0;  // of kExplicit
  // AveragePool only: whether the mean counts the zeros beyond the ends.
  // PyTorch calls it count_include_pad.
  bool count_padding = true;
};

// The maximum of each window of `x`. `windows` has the dimensions to pool, with
// the size of the window in each.
//
//   // [batch, height:32, width:32, io] -> [batch, height:16, width:16, io]
//   Tensor y = MaxPool(x, {{"height", 2}, {"width", 2}});
//   // PyTorch's MaxPool2d(3, stride=2, padding=1)
//   Tensor z = MaxPool(x, {{"height", 3}, {"width", 3}},
//                      {.stride = 2, .padding = WindowPadding::kExplicit,
//                       .before = 1, .after = 1});
//
// Dimensions are pooled one after the other, so the gradient of equal maxima of
// a row of a window is divided equally, then that of equal rows. A window
// without an element is -infinity. Where a dimension is sharded, neighbours
// exchange the elements that their windows share. The maximum over all elements
// is a MaxOver().
//
// Records kInvalidArgument in the graph if `x` is not a float, `windows` is
// empty, has a dimension twice or one that `x` lacks, or a size below 1, the
// stride is negative, and for the errors of Windows(). Returns an empty Tensor
// if `x` is empty.
Tensor MaxPool(Tensor x, const Shape& windows, PoolOptions options = {},
               std::source_location location = std::source_location::current());

// The mean of each window of `x`. As above; a window without an element is NaN
// if padding is not counted.
//
//   Tensor y = AveragePool(x, {{"height", 2}, {"width", 2}});
Tensor AveragePool(
    Tensor x, const Shape& windows, PoolOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_POOL_H_
