// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/dense.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/adapter.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

absl::Status Check(Tensor x, const Shape& reduced, const Shape& kept,
                   const Shape& output, const DenseOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "dense"));
  for (const Dimension& dim : reduced) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(x, dim));
  }
  for (const Dimension& dim : options.each) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(x, dim));
    if (!reduced.Contains(dim.name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("dimension \"", dim.name, "\" of .each is also reduced",
                     DescribeInputs({x})));
  }
  MTF_RETURN_IF_ERROR(reduced.Validate());
  MTF_RETURN_IF_ERROR(output.Validate());
  MTF_RETURN_IF_ERROR(options.each.Validate());
  for (const Dimension& dim : output) {
    if (!kept.Contains(dim.name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "dimension \"", dim.name, "\" of the output is already in \"", x.name(),
        "\" and is not reduced", DescribeInputs({x}), "\n  output   [",
        output.ToString(), "]\n  help     reduce it, or give the output ",
        "another name"));
  }
  if (!(options.init_scale >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(".init_scale is ", options.init_scale,
                     ", but a variance cannot be negative"));
  }
  if (options.init_scale != DenseOptions().init_scale) {
    return internal::CheckUnused(".init_scale", options.init);
  }
  return absl::OkStatus();
}

}  // namespace

Tensor Dense(Tensor x, Shape reduced, Shape output, DenseOptions options,
             std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  Shape kept = x.shape();
  for (const Dimension& dim : reduced) kept = kept.Without(dim.name);
  const Shape result = internal::Join(kept, output);
  const absl::Status status = Check(x, reduced, kept, output, options);
  if (!status.ok()) {
    return graph.Fail(status, internal::DescribeLayer("dense", options.name),
                      location, result, x.dtype());
  }
  x = internal::To(ActivationDType(x), x);
  // A kernel cannot have a name twice, so rename its input side.
  for (const Dimension& dim : output) {
    if (!reduced.Contains(dim.name)) continue;
    const std::string inner = absl::StrCat(dim.name, "_in");
    x = Rename(x, dim.name, inner);
    reduced = reduced.Renamed(dim.name, inner);
  }
  const Tensor kernel = Kernel(graph, "kernel", reduced, output, x.dtype(),
                               {.scale = options.init_scale,
                                .init = options.init,
                                .each = options.each});
  // Create and cast the bias before the product, so that the product can add it
  // as an epilogue.
  Tensor bias;
  if (options.bias) {
    const Shape shape = internal::Join(options.each, output);
    bias = Parameter(graph, "bias", Zeros(graph, kFloat32, shape), x.dtype());
  }
  Tensor y = Einsum({x, kernel}, result);
  // Before the bias, so that one collective reduces both products.
  y = internal::AddAdapter(y, x, options.each, reduced, output, location);
  if (bias.valid()) y = y + bias;
  return options.activation == nullptr ? y : options.activation(y);
}

Tensor DenseProduct(Tensor x, Shape reduced, Shape output,
                    std::vector<Activation> activations, DenseOptions options,
                    std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  if (activations.empty() || options.activation != nullptr) {
    return graph.Fail(
        absl::InvalidArgumentError(
            "DenseProduct() takes at least one entry in `activations`, and its "
            "options no .activation"),
        internal::DescribeLayer("dense_product", options.name), location,
        x.shape(), x.dtype());
  }
  Tensor product;
  for (size_t i = 0; i < activations.size(); ++i) {
    options.activation = activations[i];
    options.name = absl::StrCat("factor_", i);
    const Tensor factor = Dense(x, reduced, output, options);
    product = product.valid() ? product * factor : factor;
  }
  return product;
}

}  // namespace mtf::nn
