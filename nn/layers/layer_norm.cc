// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/layer_norm.h"

#include <cmath>

#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf::nn {
namespace {

absl::Status Check(Tensor x, const Dimension& dim, const Shape& each,
                   double epsilon, absl::string_view what) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, what));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, dim));
  for (const Dimension& own : each) {
    MTF_RETURN_IF_ERROR(internal::CheckDimension(x, own));
  }
  // With epsilon 0, constant rows would be NaN.
  return mtf::internal::CheckPositive(".epsilon", epsilon);
}

// x / sqrt(mean(x^2) + epsilon) over `dim`, times a new parameter if requested.
Tensor Normalize(Tensor x, const Dimension& dim, double epsilon, bool scale,
                 const Shape& each) {
  const Tensor variance = ReduceMean(Square(x), x.shape().Without(dim.name));
  const Tensor y = x * Rsqrt(variance + epsilon);
  if (!scale) return y;
  Graph& graph = x.graph();
  return y * Parameter(graph, "scale", Ones(graph, kFloat32, each.With(dim)),
                       kFloat32);
}

}  // namespace

Tensor LayerNorm(Tensor x, Dimension dim, LayerNormOptions options,
                 std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status =
      Check(x, dim, options.each, options.epsilon, "layer_norm");
  if (!status.ok()) {
    return graph.Fail(status,
                      internal::DescribeLayer("layer_norm", options.name),
                      location, x.shape(), x.dtype());
  }
  const Tensor wide = internal::To(kFloat32, x);
  const Tensor mean = ReduceMean(wide, x.shape().Without(dim.name));
  Tensor y =
      Normalize(wide - mean, dim, options.epsilon, options.scale, options.each);
  if (options.bias) {
    y = y + Parameter(graph, "bias",
                      Zeros(graph, kFloat32, options.each.With(dim)), kFloat32);
  }
  return internal::To(ActivationDType(x), y);
}

Tensor RmsNorm(Tensor x, Dimension dim, RmsNormOptions options,
               std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status =
      Check(x, dim, options.each, options.epsilon, "rms_norm");
  if (!status.ok()) {
    return graph.Fail(status, internal::DescribeLayer("rms_norm", options.name),
                      location, x.shape(), x.dtype());
  }
  const Tensor y = Normalize(internal::To(kFloat32, x), dim, options.epsilon,
                             options.scale, options.each);
  return internal::To(ActivationDType(x), y);
}

Tensor ScaleNorm(Tensor x, Dimension dim, ScaleNormOptions options,
                 std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status =
      Check(x, dim, options.each, options.epsilon, "scale_norm");
  if (!status.ok()) {
    return graph.Fail(status,
                      internal::DescribeLayer("scale_norm", options.name),
                      location, x.shape(), x.dtype());
  }
  const Tensor wide = internal::To(kFloat32, x);
  const Tensor energy = ReduceSum(Square(wide), x.shape().Without(dim.name));
  const double initial = std::sqrt(static_cast<double>(dim.size));
  const Tensor scale =
      Parameter(graph, "scale",
                Constant(graph, initial, kFloat32, options.each), kFloat32);
  return internal::To(ActivationDType(x),
                      wide * (Rsqrt(energy + options.epsilon) * scale));
}

}  // namespace mtf::nn
