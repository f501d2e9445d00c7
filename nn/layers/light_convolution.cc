// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/light_convolution.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/layers/softmax.h"
#include "ops/checks.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/reshape.h"
#include "ops/windows.h"

namespace mtf::nn {
namespace {

constexpr char kTaps[] = "taps";

absl::Status Check(Tensor x, const Dimension& length, const Dimension& heads,
                   const LightConvolutionOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "a convolution"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, length));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckBelowOne(".dropout", options.dropout));
  for (const Dimension& own : options.each) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(x, own));
  }
  MTF_ASSIGN_OR_RETURN(const Dimension d_model,
                       internal::ModelDimension(x, {length}));
  if (options.taps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(".taps is ", options.taps, ", less than 1"));
  }
  if (heads.size < 1 || d_model.size % heads.size != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", d_model.name, "\" is ", d_model.size, ", not a multiple of \"",
        heads.name, "\", which is ", heads.size, DescribeInputs({x})));
  }
  return absl::OkStatus();
}

Tensor FailConvolution(Tensor x, const absl::Status& status,
                       const LightConvolutionOptions& options,
                       std::source_location location) {
  return x.graph().Fail(
      status, internal::DescribeLayer("light_convolution", options.name),
      location, x.shape(), x.dtype());
}

// The convolution of `x` with `filter` [heads, taps], and maybe dimensions of
// positions, before its softmax.
Tensor Convolve(Tensor x, Tensor filter, const Dimension& length,
                const Dimension& heads,
                const LightConvolutionOptions& options) {
  const Dimension d_model = x.shape().dims().back(), taps{kTaps, options.taps};
  Tensor weights =
      internal::To(x.dtype(), Softmax(internal::To(kFloat32, filter), taps));
  if (options.dropout != 0) weights = Dropout(weights, options.dropout);
  WindowOptions window;
  if (options.causal) {
    window = {.padding = WindowPadding::kExplicit, .before = options.taps - 1};
  }
  const Dimension channels{absl::StrCat(d_model.name, "_in_head"),
                           d_model.size / heads.size};
  const Tensor split = SplitDimension(x, d_model.name, {heads, channels});
  const Tensor y = Einsum({Windows(split, length.name, taps, window), weights},
                          split.shape());
  return MergeDimensions(y, {heads.name, channels.name}, d_model.name);
}

}  // namespace

Tensor LightweightConvolution(Tensor x, Dimension length, Dimension heads,
                              LightConvolutionOptions options,
                              std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status = Check(x, length, heads, options);
  if (!status.ok()) return FailConvolution(x, status, options, location);
  x = internal::To(ActivationDType(x), x);
  const Dimension taps{kTaps, options.taps};
  const Tensor filter = Kernel(graph, "filter", {taps}, {}, kFloat32,
                               {.each = options.each.With(heads)});
  return Convolve(x, filter, length, heads, options);
}

Tensor DynamicConvolution(Tensor x, Dimension length, Dimension heads,
                          LightConvolutionOptions options,
                          std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), options.name, location);
  const absl::Status status = Check(x, length, heads, options);
  if (!status.ok()) return FailConvolution(x, status, options, location);
  x = internal::To(ActivationDType(x), x);
  const Tensor filter =
      Dense(x, {x.shape().dims().back()}, {heads, {kTaps, options.taps}},
            {.bias = false,
             .init_scale = 1 / static_cast<double>(options.taps),
             .each = options.each,
             .name = "filter"});
  return Convolve(x, filter, length, heads, options);
}

Tensor ConvolutionBlock(Tensor x, Dimension length, Dimension heads,
                        bool dynamic, LightConvolutionOptions options,
                        std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), options.name, location);
  const absl::Status status = Check(x, length, heads, options);
  if (!status.ok()) return FailConvolution(x, status, options, location);
  const Dimension d_model = x.shape().dims().back();
  Tensor y = DenseProduct(x, {d_model}, {d_model}, {nullptr, Sigmoid},
                          {.each = options.each, .name = "gated"});
  const Shape each = options.each;
  options.name = "convolution";
  y = dynamic ? DynamicConvolution(y, length, heads, options)
              : LightweightConvolution(y, length, heads, options);
  return Dense(y, {d_model}, {d_model}, {.each = each, .name = "output"});
}

}  // namespace mtf::nn
