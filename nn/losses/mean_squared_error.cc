// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/mean_squared_error.h"

#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/losses/position_weights.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

absl::Status CheckSquaredError(Tensor x, Tensor targets, Tensor weights) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, targets}));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "mean_squared_error"));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckSameDimensions(x, targets, {x, targets}));
  return internal::CheckWeights(weights, x);
}

}  // namespace

Tensor MeanSquaredError(Tensor x, Tensor targets,
                        MeanSquaredErrorOptions options,
                        std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({x, targets});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  const absl::Status status =
      x.valid() ? CheckSquaredError(x, targets, options.weights)
                : mtf::internal::CheckInputs(*graph, {x});
  if (!status.ok()) {
    return graph->Fail(
        status, internal::DescribeLayer("mean_squared_error", options.name),
        location, options.per_position ? x.shape() : Shape());
  }
  const Tensor factors =
      internal::FactorsOf(x.shape(), options.weights, options.per_position);
  const Tensor loss =
      Square(internal::To(kFloat32, x) - internal::To(kFloat32, targets));
  return internal::Reduce(loss, factors, options.per_position);
}

}  // namespace mtf::nn
