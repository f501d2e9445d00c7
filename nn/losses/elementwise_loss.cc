// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/elementwise_loss.h"

#include "mtf/errors.h"
#include "mtf/status.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/losses/position_weights.h"
#include "ops/checks.h"

namespace mtf::nn::internal {
namespace {

absl::Status CheckOperands(absl::string_view kind, Tensor x, Tensor targets,
                           Tensor weights) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, targets}));
  MTF_RETURN_IF_ERROR(CheckFloat(x, kind));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckSameDimensions(x, targets, {x, targets}));
  return CheckWeights(weights, x);
}

}  // namespace

Tensor ElementwiseLoss(
    absl::string_view kind, Tensor x, Tensor targets,
    const ElementwiseLossOptions& options, std::source_location location,
    absl::FunctionRef<Tensor(Tensor x, Tensor targets)> loss) {
  Graph* graph = mtf::internal::GraphOf({x, targets});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  const absl::Status status =
      x.valid() ? CheckOperands(kind, x, targets, options.weights)
                : mtf::internal::CheckInputs(*graph, {x});
  if (!status.ok()) {
    return graph->Fail(status, DescribeLayer(kind, options.name), location,
                       options.per_position ? x.shape() : Shape());
  }
  const Tensor factors =
      FactorsOf(x.shape(), options.weights, options.per_position);
  return Reduce(loss(To(kFloat32, x), To(kFloat32, targets)), factors,
                options.per_position);
}

}  // namespace mtf::nn::internal
