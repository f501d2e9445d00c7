// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/clip.h"

#include <utility>

#include "mtf/status.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf::nn {
namespace {

absl::Status Check(const Graph& graph, const std::vector<Tensor>& gradients,
                   double max_norm) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckPositive("max_norm", max_norm));
  for (const Tensor& gradient : gradients) {
    if (!gradient.valid()) continue;
    MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(graph, {gradient}));
    MTF_RETURN_IF_ERROR(internal::CheckFloat(gradient, "clip"));
  }
  return absl::OkStatus();
}

}  // namespace

ClippedGradients ClipByGlobalNorm(std::vector<Tensor> gradients,
                                  double max_norm,
                                  std::source_location location) {
  Graph* graph = mtf::internal::GraphOf(gradients);
  if (graph == nullptr) return {std::move(gradients), {}};
  LayerScope layer(*graph, "clip", location);
  SectionScope section(*graph, LayoutSection::kOptimizer);
  const absl::Status status = Check(*graph, gradients, max_norm);
  if (!status.ok()) {
    return {std::move(gradients), graph->Fail(status, "clip", location)};
  }
  // One chain of scalar sums, so that sums with the same layout can be added
  // before they are all_reduced.
  std::vector<Tensor> squares;
  for (const Tensor& gradient : gradients) {
    if (!gradient.valid()) continue;
    const RulesScope rules(gradient);
    squares.push_back(ReduceSum(Square(internal::To(kFloat32, gradient)), {}));
  }
  const Tensor norm = Sqrt(AddN(std::move(squares)));
  const Tensor scale = max_norm / Maximum(norm, max_norm);
  for (Tensor& gradient : gradients) {
    if (!gradient.valid()) continue;
    const RulesScope rules(gradient);
    gradient = gradient * internal::To(gradient.dtype(), scale);
  }
  return {std::move(gradients), norm};
}

}  // namespace mtf::nn
