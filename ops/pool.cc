// SPDX-License-Identifier: Apache-2.0
#include "ops/pool.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf {
namespace {

absl::Status Check(Tensor x, const Shape& windows, absl::string_view kind,
                   const PoolOptions& options) {
  if (!IsFloat(x.dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind, " takes a float dtype, not ", DTypeName(x.dtype()),
                     DescribeInputs({x}), "\n  help     Cast() it"));
  }
  if (windows.rank() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kind, " has no dimension to pool", DescribeInputs({x}),
        "\n  help     give the sizes of the windows: {{\"height\", 2}}"));
  }
  MTF_RETURN_IF_ERROR(windows.Validate());
  for (const Dimension& dim : windows) {
    MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim.name));
    if (dim.size >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the windows of ", kind, " have ", dim.size,
        " elements of dimension \"", dim.name, "\", which is ",
        x.shape().SizeOf(dim.name), " in \"", x.name(), "\"",
        DescribeInputs({x}), "\n  help     give windows 1 element or more"));
  }
  if (options.stride >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(".stride is ", options.stride,
                   "; it must be 1 or more, or 0 for the size of the window"));
}

// Windows along one dimension, as a new last dimension.
struct PooledWindows {
  Tensor windows;
  Shape dims;  // that one
};

PooledWindows WindowsAlong(Tensor x, const Dimension& dim,
                           const PoolOptions& options, double fill,
                           std::source_location location) {
  Dimension window = {absl::StrCat(dim.name, "-window"), dim.size};
  while (x.shape().Contains(window.name)) window.name += "-";
  const WindowOptions along = {
      .stride = options.stride == 0 ? dim.size : options.stride,
      .dilation = options.dilation,
      .padding = options.padding,
      .before = options.before,
      .after = options.after,
      .fill = fill};
  return {Windows(x, dim.name, window, along, location), {window}};
}

// By window, how many of its elements lie in a dimension of `size` elements.
std::vector<double> CountElements(int64_t size, int64_t count, int64_t window,
                                  const PoolOptions& options) {
  const int64_t stride = options.stride == 0 ? window : options.stride;
  int64_t before = options.before;
  if (options.padding == WindowPadding::kSame) {
    const int64_t extent =
        (count - 1) * stride + (window - 1) * options.dilation + 1;
    before = std::max<int64_t>(0, extent - size) / 2;
  }
  std::vector<double> counts(count, 0);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t w = 0; w < window; ++w) {
      const int64_t at = i * stride + w * options.dilation - before;
      counts[i] += at >= 0 && at < size;
    }
  }
  return counts;
}

}  // namespace

Tensor MaxPool(Tensor x, const Shape& windows, PoolOptions options,
               std::source_location location) {
  if (!x.valid()) return {};
  const absl::Status status = Check(x, windows, "max_pool", options);
  if (!status.ok()) {
    return x.graph().Fail(status, "max_pool", location, x.shape(), x.dtype());
  }
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  for (const Dimension& dim : windows) {
    const PooledWindows y = WindowsAlong(x, dim, options, kLowest, location);
    x = MaxOver(y.windows, y.dims, location);
  }
  return x;
}

Tensor AveragePool(Tensor x, const Shape& windows, PoolOptions options,
                   std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  const absl::Status status = Check(x, windows, "average_pool", options);
  if (!status.ok()) {
    return graph.Fail(status, "average_pool", location, x.shape(), x.dtype());
  }
  const bool counts =
      !options.count_padding && options.padding != WindowPadding::kValid;
  // In f32 sums are divided once, by the elements of all dimensions. Those of
  // 16-bit floats could overflow.
  const bool divides_once = x.dtype() == kFloat32 && !counts;
  double elements = 1;
  for (const Dimension& dim : windows) {
    const int64_t size = x.shape().SizeOf(dim.name);
    const PooledWindows y = WindowsAlong(x, dim, options, 0, location);
    const CallSiteScope site(graph, location);
    x = SumOver(y.windows, y.dims);
    if (!graph.status().ok()) continue;
    if (divides_once) {
      elements *= static_cast<double>(dim.size);
    } else if (!counts) {
      x = x / static_cast<double>(dim.size);
    } else {
      const int64_t count = y.windows.shape().SizeOf(dim.name);
      x = x / Constant(graph, CountElements(size, count, dim.size, options),
                       x.dtype(), {{dim.name, count}});
    }
  }
  if (divides_once) {
    const CallSiteScope site(graph, location);
    x = x / elements;
  }
  return x;
}

}  // namespace mtf
