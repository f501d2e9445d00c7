// SPDX-License-Identifier: Apache-2.0
#include "ops/convolution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/einsum.h"

namespace mtf {
namespace {

absl::Status CheckReduced(Tensor x, Tensor filter, const Shape& reduced) {
  for (const Dimension& dim : reduced) {
    for (const Tensor& each : {x, filter}) {
      MTF_RETURN_IF_ERROR(internal::CheckHasDimension(each, dim.name));
      const int64_t size = each.shape().SizeOf(dim.name);
      if (size == dim.size) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "dimension \"", dim.name, "\" is ", dim.size, " in the call but ",
          size, " in \"", each.name(), "\"", DescribeInputs({x, filter}),
          "\n  help     give one size to the name"));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(Tensor x, Tensor filter,
                   const std::vector<SpatialDimension>& spatial,
                   const Shape& reduced) {
  MTF_RETURN_IF_ERROR(internal::CheckInputs(x.graph(), {x, filter}));
  if (spatial.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a convolution needs a spatial dimension", DescribeInputs({x, filter}),
        "\n  help     Einsum() multiplies without windows"));
  }
  for (size_t i = 0; i < spatial.size(); ++i) {
    const SpatialDimension& dim = spatial[i];
    MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim.name));
    MTF_RETURN_IF_ERROR(internal::CheckHasDimension(filter, dim.window));
    const bool twice = std::any_of(
        spatial.begin(), spatial.begin() + static_cast<int>(i),
        [&](const SpatialDimension& other) { return other.name == dim.name; });
    if (twice) {
      return absl::InvalidArgumentError(
          absl::StrCat("spatial dimension \"", dim.name, "\" is listed twice"));
    }
    if (reduced.Contains(dim.name) || reduced.Contains(dim.window)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", reduced.Contains(dim.name) ? dim.name : dim.window,
          "\" cannot be both a spatial dimension and a reduced one",
          DescribeInputs({x, filter})));
    }
    if (filter.shape().Contains(dim.name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the filter \"", filter.name(), "\" has the spatial dimension \"",
          dim.name, "\" of \"", x.name(), "\"", DescribeInputs({x, filter}),
          "\n  help     give the dimension of its windows another name"));
    }
    if (x.shape().Contains(dim.window)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", x.name(), "\" has the dimension \"", dim.window,
          "\", which is a window of the filter", DescribeInputs({x, filter}),
          "\n  help     give the window another name"));
    }
  }
  return CheckReduced(x, filter, reduced);
}

// The dimensions of `x` without `reduced`, then those that only `filter` has.
Shape ProductOf(Tensor x, Tensor filter, const Shape& reduced) {
  Shape product = x.shape();
  for (const Dimension& dim : filter.shape()) {
    if (!product.Contains(dim.name)) product = product.With(dim);
  }
  for (const Dimension& dim : reduced) product = product.Without(dim.name);
  return product;
}

Shape WithoutWindows(Shape shape,
                     const std::vector<SpatialDimension>& spatial) {
  for (const SpatialDimension& dim : spatial) {
    shape = shape.Without(dim.window);
  }
  return shape;
}

// The default size of a dimension with `count` windows of `window` elements.
int64_t SizeFor(int64_t count, int64_t window, const WindowOptions& options) {
  if (options.padding == WindowPadding::kSame) return count * options.stride;
  return (count - 1) * options.stride + (window - 1) * options.dilation + 1 -
         options.before - options.after;
}

absl::Status CheckSizes(Tensor x, const std::vector<SpatialDimension>& spatial,
                        const Shape& sizes) {
  for (const Dimension& size : sizes) {
    const bool is_spatial = std::any_of(
        spatial.begin(), spatial.end(),
        [&](const SpatialDimension& dim) { return dim.name == size.name; });
    if (is_spatial) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the result is to have \"", size.name, "\" of size ", size.size,
        ", but that is not a spatial dimension", DescribeInputs({x})));
  }
  return absl::OkStatus();
}

Tensor FailWith(const absl::Status& status, absl::string_view kind, Tensor x,
                Tensor filter, const std::vector<SpatialDimension>& spatial,
                const Shape& reduced, std::source_location location) {
  Shape shape;
  if (x.valid() && filter.valid()) {
    shape = WithoutWindows(ProductOf(x, filter, reduced), spatial);
  }
  const Tensor& any = x.valid() ? x : filter;
  return any.graph().Fail(status, kind, location, shape, any.dtype());
}

}  // namespace

Tensor Convolution(Tensor x, Tensor filter,
                   const std::vector<SpatialDimension>& spatial,
                   const Shape& reduced, std::source_location location) {
  if (!x.valid() && !filter.valid()) return {};
  const absl::Status status =
      x.valid() && filter.valid()
          ? Check(x, filter, spatial, reduced)
          : internal::CheckInputs((x.valid() ? x : filter).graph(),
                                  {x, filter});
  if (!status.ok()) {
    return FailWith(status, "convolution", x, filter, spatial, reduced,
                    location);
  }
  for (const SpatialDimension& dim : spatial) {
    const Dimension window = {dim.window, filter.shape().SizeOf(dim.window)};
    x = Windows(x, dim.name, window, dim.options, location);
  }
  const Shape result = WithoutWindows(ProductOf(x, filter, reduced), spatial);
  return Einsum({x, filter}, result, {}, location);
}

Tensor TransposedConvolution(Tensor x, Tensor filter,
                             const std::vector<SpatialDimension>& spatial,
                             const Shape& reduced, const Shape& sizes,
                             std::source_location location) {
  if (!x.valid() && !filter.valid()) return {};
  absl::Status status =
      x.valid() && filter.valid()
          ? Check(x, filter, spatial, reduced)
          : internal::CheckInputs((x.valid() ? x : filter).graph(),
                                  {x, filter});
  if (status.ok()) status = CheckSizes(x, spatial, sizes);
  if (!status.ok()) {
    return FailWith(status, "transposed_convolution", x, filter, spatial,
                    reduced, location);
  }
  // Windows are folded from the last dimension on, as in the gradient of a
  // convolution.
  Shape product = WithoutWindows(ProductOf(x, filter, reduced), spatial);
  for (const SpatialDimension& dim : spatial) {
    product = product.With({dim.window, filter.shape().SizeOf(dim.window)});
  }
  Tensor y = Einsum({x, filter}, product, {}, location);
  for (auto dim = spatial.rbegin(); dim != spatial.rend(); ++dim) {
    const int64_t size =
        sizes.Contains(dim->name)
            ? sizes.SizeOf(dim->name)
            : SizeFor(x.shape().SizeOf(dim->name),
                      filter.shape().SizeOf(dim->window), dim->options);
    y = FoldWindows(y, dim->name, dim->window, size, dim->options, location);
  }
  return y;
}

}  // namespace mtf
