// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/sigmoid_cross_entropy.h"

#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/losses/position_weights.h"
#include "ops/checks.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

absl::Status CheckSigmoid(Tensor logits, Tensor targets, Tensor weights) {
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckInputs(logits.graph(), {logits, targets}));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(logits, "sigmoid_cross_entropy"));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckSameDimensions(logits, targets, {logits, targets}));
  return internal::CheckWeights(weights, logits);
}

}  // namespace

Tensor SigmoidCrossEntropy(Tensor logits, Tensor targets,
                           SigmoidCrossEntropyOptions options,
                           std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({logits, targets});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options.name, location);
  const absl::Status status =
      logits.valid() ? CheckSigmoid(logits, targets, options.weights)
                     : mtf::internal::CheckInputs(*graph, {logits});
  if (!status.ok()) {
    return graph->Fail(
        status, internal::DescribeLayer("sigmoid_cross_entropy", options.name),
        location, options.per_position ? logits.shape() : Shape());
  }
  const Tensor factors = internal::FactorsOf(logits.shape(), options.weights,
                                             options.per_position);
  const Tensor x = internal::To(kFloat32, logits);
  const Tensor loss = Softplus(x) - x * internal::To(kFloat32, targets);
  return internal::Reduce(loss, factors, options.per_position);
}

}  // namespace mtf::nn
