// SPDX-License-Identifier: Apache-2.0
#include "ops/windows.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "mtf/window_spec.h"
#include "ops/checks.h"

namespace mtf {
namespace {

std::string AttributesOf(const WindowSpec& spec) {
  std::string text = absl::StrCat(
      spec.dimension, " ", spec.window.name, " stride=", spec.stride,
      " dilation=", spec.dilation, " before=", spec.before);
  if (spec.wrap) {
    absl::StrAppend(&text, " wrap");
  } else if (spec.fill != 0) {
    absl::StrAppend(&text, " fill=", spec.fill);
  }
  return text;
}

class FoldWindowsOp;

class WindowsOp : public Operation {
 public:
  WindowsOp(Tensor x, WindowSpec spec)
      : Operation(
            {x},
            x.shape().Resized(spec.dimension, spec.windows).With(spec.window),
            x.dtype()),
        spec_(std::move(spec)) {}
  absl::string_view kind() const override { return "windows"; }
  std::string attributes() const override { return AttributesOf(spec_); }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override;
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Windows(inputs[0], spec_);
  }

 private:
  const WindowSpec spec_;
};

class FoldWindowsOp : public Operation {
 public:
  FoldWindowsOp(Tensor windows, WindowSpec spec, int64_t size)
      : Operation({windows},
                  windows.shape()
                      .Without(spec.window.name)
                      .Resized(spec.dimension, size),
                  windows.dtype()),
        spec_(std::move(spec)) {}
  absl::string_view kind() const override { return "fold_windows"; }
  std::string attributes() const override { return AttributesOf(spec_); }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    return {dy.graph().Add(std::make_unique<WindowsOp>(dy, spec_),
                           std::source_location::current())};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.FoldWindows(inputs[0], spec_,
                               shape().SizeOf(spec_.dimension));
  }

 private:
  const WindowSpec spec_;
};

std::vector<Tensor> WindowsOp::Gradient(
    absl::Span<const Tensor> of_results) const {
  const Tensor dy = of_results[0];
  WindowSpec spec = spec_;
  spec.fill = 0;  // a constant
  return {dy.graph().Add(std::make_unique<FoldWindowsOp>(
                             dy, spec, input(0).shape().SizeOf(spec.dimension)),
                         std::source_location::current())};
}

// Larger numbers than any dimension needs, whose sums and products do not
// overflow.
constexpr int64_t kMostElements = int64_t{1} << 40;
// Windows that wrap around more often than this are a mistake.
constexpr int64_t kMostRepeats = 64;

absl::Status CheckOption(absl::string_view name, int64_t value, int64_t least) {
  if (value >= least && value <= kMostElements) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is ", value, "; it must be from ", least, " to 2^40"));
}

}  // namespace

absl::Status internal::CheckWindowOptions(const WindowOptions& options) {
  MTF_RETURN_IF_ERROR(CheckOption(".stride", options.stride, 1));
  MTF_RETURN_IF_ERROR(CheckOption(".dilation", options.dilation, 1));
  MTF_RETURN_IF_ERROR(CheckOption(".before", options.before, 0));
  MTF_RETURN_IF_ERROR(CheckOption(".after", options.after, 0));
  if (options.padding != WindowPadding::kExplicit &&
      (options.before != 0 || options.after != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".before is ", options.before, " and .after is ", options.after,
        ", which only .padding = WindowPadding::kExplicit uses"));
  }
  if (options.wrap && options.fill != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(".fill is ", options.fill,
                     ", but windows that wrap around read no "
                     "fill value"));
  }
  return absl::OkStatus();
}

namespace {

absl::Status CheckSize(Tensor x, absl::string_view dim, const Dimension& window,
                       int64_t size, const WindowOptions& options) {
  if (window.size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("windows of dimension \"", dim, "\" have ", window.size,
                     " elements \"", window.name, "\"", DescribeInputs({x}),
                     "\n  help     give windows 1 element or more"));
  }
  if (size < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "dimension \"", dim, "\" is to get ", size, " elements from windows \"",
        window.name, "\" of ", window.size, DescribeInputs({x}),
        "\n  help     give the size of the dimension that the windows are of"));
  }
  if (window.size <= kMostElements / options.dilation &&
      size <= kMostElements) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "windows of ", window.size, " elements \"", window.name,
      "\" at distance ", options.dilation, " of dimension \"", dim,
      "\", which is ", size, ": sizes and distances are at most 2^40",
      DescribeInputs({x})));
}

// The windows of a dimension of `size` elements, which `x` has or will have.
absl::StatusOr<WindowSpec> MakeSpec(Tensor x, absl::string_view dim,
                                    const Dimension& window, int64_t size,
                                    const WindowOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckWindowOptions(options));
  MTF_RETURN_IF_ERROR(CheckSize(x, dim, window, size, options));
  WindowSpec spec;
  spec.dimension = std::string(dim);
  spec.window = window;
  spec.stride = options.stride;
  spec.dilation = options.dilation;
  spec.fill = options.fill;
  spec.wrap = options.wrap;
  const int64_t span = spec.span();
  if (options.padding == WindowPadding::kSame) {
    spec.windows = (size + options.stride - 1) / options.stride;
    spec.before = std::max<int64_t>(0, spec.extent() - size) / 2;
  } else {
    spec.before = options.before;
    const int64_t padded = options.before + size + options.after;
    if (span > padded) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a window of \"", window.name, "\" spans ", span,
          " elements, but dimension \"", dim, "\" of \"", x.name(), "\" is ",
          size, padded == size ? "" : absl::StrCat(", with padding ", padded),
          DescribeInputs({x}),
          "\n  help     use WindowPadding::kSame, more padding or a smaller "
          "window"));
    }
    spec.windows = (padded - span) / options.stride + 1;
  }
  if (spec.wrap && spec.extent() > size * kMostRepeats) {
    return absl::InvalidArgumentError(absl::StrCat(
        "windows over ", spec.extent(), " elements wrap around dimension \"",
        dim, "\" of \"", x.name(), "\", which is ", size, ", more than ",
        kMostRepeats, " times", DescribeInputs({x})));
  }
  return spec;
}

absl::StatusOr<WindowSpec> CheckWindows(Tensor x, absl::string_view dim,
                                        const Dimension& window,
                                        const WindowOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(x, dim));
  if (x.shape().Contains(window.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "window dimension \"", window.name, "\" is a dimension of \"", x.name(),
        "\" already", DescribeInputs({x}),
        "\n  help     give the window another name"));
  }
  MTF_RETURN_IF_ERROR(internal::CheckHolds(x.dtype(), options.fill));
  MTF_ASSIGN_OR_RETURN(
      WindowSpec spec,
      MakeSpec(x, dim, window, x.shape().SizeOf(dim), options));
  MTF_RETURN_IF_ERROR(
      x.shape().Resized(dim, spec.windows).With(window).Validate());
  return spec;
}

absl::StatusOr<WindowSpec> CheckFold(Tensor windows, absl::string_view dim,
                                     absl::string_view window, int64_t size,
                                     const WindowOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(windows, dim));
  MTF_RETURN_IF_ERROR(internal::CheckHasDimension(windows, window));
  MTF_RETURN_IF_ERROR(internal::CheckNumber(windows, "fold_windows"));
  if (dim == window) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", dim, "\" cannot both count the windows and be one"));
  }
  const Shape& shape = windows.shape();
  MTF_ASSIGN_OR_RETURN(
      WindowSpec spec,
      MakeSpec(windows, dim, shape[shape.Find(window)], size, options));
  spec.fill = 0;
  if (spec.windows == shape.SizeOf(dim)) return spec;
  return absl::InvalidArgumentError(absl::StrCat(
      "dimension \"", dim, "\" of \"", windows.name(), "\" counts ",
      shape.SizeOf(dim), " windows, but a dimension of ", size, " has ",
      spec.windows, DescribeInputs({windows}),
      "\n  help     give the size and the options of the Windows() that this "
      "is the transpose of"));
}

}  // namespace

Tensor Windows(Tensor x, absl::string_view dim, const Dimension& window,
               WindowOptions options, std::source_location location) {
  if (!x.valid()) return {};
  absl::StatusOr<WindowSpec> spec = CheckWindows(x, dim, window, options);
  if (!spec.ok()) {
    const Shape shape =
        x.shape().Contains(window.name) ? x.shape() : x.shape().With(window);
    return x.graph().Fail(spec.status(), "windows", location, shape, x.dtype());
  }
  return x.graph().Add(std::make_unique<WindowsOp>(x, *std::move(spec)),
                       location);
}

Tensor FoldWindows(Tensor windows, absl::string_view dim,
                   absl::string_view window, int64_t size,
                   WindowOptions options, std::source_location location) {
  if (!windows.valid()) return {};
  absl::StatusOr<WindowSpec> spec =
      CheckFold(windows, dim, window, size, options);
  if (!spec.ok()) {
    return windows.graph().Fail(
        spec.status(), "fold_windows", location,
        windows.shape().Without(window).Resized(dim, size), windows.dtype());
  }
  return windows.graph().Add(
      std::make_unique<FoldWindowsOp>(windows, *std::move(spec), size),
      location);
}

}  // namespace mtf
