// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_CONVOLUTION_H_
#define OPS_CONVOLUTION_H_

#include <source_location>
#include <string>
#include <vector>

#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "ops/windows.h"

namespace mtf {

// A dimension of `x` that a convolution moves along, and the dimension of the
// filter that meets its windows.
struct SpatialDimension {
  std::string name;            // "height"
  std::string window;          // "kh"
  WindowOptions options = {};  // stride, dilation and padding
};

// Convolves `x` with `filter` over the dimensions `spatial`, and sums over
// `reduced`, the input channels:
//
//   y[..., i, ..., out] = sum over w, in of
//       x[..., i * stride + w * dilation - before, ..., in] *
//       filter[w, in, out]
//
//   // x [batch, height, width, in], w [kh, kw, in, out]
//   //     -> [batch, height, width, out]
//   Tensor y = Convolution(x, w, {{"height", "kh"}, {"width", "kw"}}, {in});
//   // Every second row and column, without padding.
//   const WindowOptions half = {.stride = 2, .padding = WindowPadding::kValid};
//   Tensor z = Convolution(
//       x, w, {{"height", "kh", half}, {"width", "kw", half}}, {in});
//
// There may be any number of spatial dimensions, and all dimensions may be in
// any order. The result has the dimensions of `x` without `reduced`, then those
// of `filter` that `x` lacks. A dimension that both have and that is not
// reduced stays separate, as in an einsum: with a filter [kh, kw, channels] and
// no `reduced` the convolution is depthwise, and groups of channels, `groups=`
// in PyTorch, are a dimension of their own (nn::Convolution splits channels).
//
// As in other libraries, the filter is not mirrored. This is a Windows per
// spatial dimension and an Einsum, and so are the gradients: where a spatial
// dimension is sharded, neighbours exchange halos.
//
// Records kInvalidArgument in the graph if a spatial dimension is missing or
// listed twice, or two of them have one dimension of the filter; if `filter`
// has a spatial dimension of `x`, or either of the two lacks a dimension of
// `reduced`; and for the errors of Windows() and Einsum(). Returns an empty
// Tensor if both tensors are empty.
Tensor Convolution(
    Tensor x, Tensor filter, const std::vector<SpatialDimension>& spatial,
    const Shape& reduced,
    std::source_location location = std::source_location::current());

// The transpose of a convolution with respect to its input: each element of `x`
// adds a window of products with the filter to the result, `stride` elements
// after that of its neighbour.
//
//   // x [batch, height:16, width:16, in], w [kh:3, kw:3, in, out]
//   //     -> [batch, height:32, width:32, out]
//   const WindowOptions two = {.stride = 2};
//   Tensor y = TransposedConvolution(
//       x, w, {{"height", "kh", two}, {"width", "kw", two}}, {in});
//
// `sizes` has the sizes of spatial dimensions in the result, from which a
// convolution with the same options has as many windows as `x` elements. By
// default it is the number of elements times the stride for
// WindowPadding::kSame, and otherwise the smallest: PyTorch's sizes with
// output_padding=0.
//
// Records kInvalidArgument in the graph as Convolution() does, for a size of a
// dimension that is not spatial or of which a convolution has another number of
// windows, and if padding takes more than all elements.
Tensor TransposedConvolution(
    Tensor x, Tensor filter, const std::vector<SpatialDimension>& spatial,
    const Shape& reduced, const Shape& sizes = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_CONVOLUTION_H_
