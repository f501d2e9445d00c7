// SPDX-License-Identifier: Apache-2.0
#include "ops/convolution.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
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

absl::Status CheckSpatial(Tensor x, Tensor filter, const SpatialDimension& dim,
                          const Shape& reduced) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim.name));
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(filter, dim.window));
  MTF_RETURN_IF_ERROR(internal::CheckWindowOptions(dim.options));
  if (reduced.Contains(dim.name) || reduced.Contains(dim.window)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", reduced.Contains(dim.name) ? dim.name : dim.window,
                     "\" cannot be both a spatial dimension and a reduced one",
                     DescribeInputs({x, filter}),
                     "\n  help     reduce the input channels; windows are "
                     "summed over in any "
                     "case"));
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
  return absl::OkStatus();
}

// Checks that no dimension or window of `others` is that of `dim`.
absl::Status CheckApart(absl::Span<const SpatialDimension> others,
                        const SpatialDimension& dim, Tensor x, Tensor filter) {
  for (const SpatialDimension& other : others) {
    if (other.name == dim.name) {
      return absl::InvalidArgumentError(absl::StrCat(
          "spatial dimension \"", dim.name,
          "\" is listed twice, with windows \"", other.window, "\" and \"",
          dim.window, "\"", DescribeInputs({x, filter}),
          "\n  help     call the function once for each filter"));
    }
    if (other.window == dim.window) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", dim.window, "\" of the filter has the windows of \"",
          other.name, "\" and of \"", dim.name, "\"",
          DescribeInputs({x, filter}),
          "\n  help     give the filter a dimension for each of the two"));
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
  for (auto dim = spatial.begin(); dim != spatial.end(); ++dim) {
    MTF_RETURN_IF_ERROR(CheckSpatial(x, filter, *dim, reduced));
    MTF_RETURN_IF_ERROR(
        CheckApart(absl::MakeSpan(spatial.data(), &*dim), *dim, x, filter));
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

// The sizes of a dimension that has `count` windows of `window` elements.
struct Sizes {
  int64_t least, most;
  int64_t DefaultFor(const WindowOptions& options) const {
    return options.padding == WindowPadding::kSame ? most : least;
  }
};

Sizes SizesFor(int64_t count, int64_t window, const WindowOptions& options) {
  if (options.padding == WindowPadding::kSame) {
    return {(count - 1) * options.stride + 1, count * options.stride};
  }
  const int64_t least = (count - 1) * options.stride +
                        (window - 1) * options.dilation + 1 - options.before -
                        options.after;
  return {least, least + options.stride - 1};
}

Sizes SizesOf(Tensor x, Tensor filter, const SpatialDimension& dim) {
  return SizesFor(x.shape().SizeOf(dim.name), filter.shape().SizeOf(dim.window),
                  dim.options);
}

// Checks the size of `dim` in the result: `given`, or the default.
absl::Status CheckResultSize(Tensor x, Tensor filter,
                             const SpatialDimension& dim,
                             const int64_t* given) {
  const WindowOptions& options = dim.options;
  const int64_t count = x.shape().SizeOf(dim.name);
  const int64_t window = filter.shape().SizeOf(dim.window);
  constexpr int64_t kMostElements = int64_t{1} << 40;  // that of Windows()
  if (count > kMostElements / options.stride ||
      window > kMostElements / options.dilation) {
    return absl::InvalidArgumentError(
        absl::StrCat("dimension \"", dim.name,
                     "\" of the result would have more than 2^40 "
                     "elements: ",
                     count, " windows \"", dim.window, "\" of ", window,
                     ", .stride ", options.stride, ", .dilation ",
                     options.dilation, DescribeInputs({x, filter})));
  }
  const Sizes sizes = SizesOf(x, filter, dim);
  if (sizes.most < 0 || (given == nullptr && sizes.DefaultFor(options) < 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dimension \"", dim.name, "\" of the result would be ", sizes.least,
        ": ", count, " windows \"", dim.window, "\" of ", window, ", .stride ",
        options.stride, ", .dilation ", options.dilation, ", less .before ",
        options.before, " and .after ", options.after,
        DescribeInputs({x, filter}),
        "\n  help     use less padding, or a larger stride or window"));
  }
  if (given == nullptr || (*given >= sizes.least && *given <= sizes.most)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the result is to have \"", dim.name, "\" of size ", *given, ", but \"",
      x.name(), "\" has ", count, ", and only a dimension of ",
      std::max<int64_t>(0, sizes.least),
      sizes.least == sizes.most ? "" : absl::StrCat(" to ", sizes.most),
      " has ", count, " windows", DescribeInputs({x, filter}),
      "\n  help     give such a size, or none for the default of ",
      sizes.DefaultFor(options)));
}

absl::Status CheckSizes(Tensor x, Tensor filter,
                        const std::vector<SpatialDimension>& spatial,
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
  for (const SpatialDimension& dim : spatial) {
    const int i = sizes.Find(dim.name);
    const int64_t* given = i < 0 ? nullptr : &sizes[i].size;
    MTF_RETURN_IF_ERROR(CheckResultSize(x, filter, dim, given));
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
  if (status.ok()) status = CheckSizes(x, filter, spatial, sizes);
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
            : SizesOf(x, filter, *dim).DefaultFor(dim->options);
    y = FoldWindows(y, dim->name, dim->window, size, dim->options, location);
  }
  return y;
}

}  // namespace mtf
