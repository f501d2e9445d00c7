// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/regularization.h"

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/stop_gradient.h"

namespace mtf::nn {
namespace {

absl::Status CheckRate(Tensor x, Tensor rate) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {x, rate}));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "annealed_dropout"));
  if (rate.shape().rank() == 0 && rate.dtype() == kFloat32) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the rate is ", DTypeName(rate.dtype()), " [", rate.shape().ToString(),
      "], not a scalar f32", DescribeInputs({x, rate})));
}

}  // namespace

Tensor Jitter(Tensor x, double epsilon, std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, "jitter", location);
  absl::Status status = internal::CheckFloat(x, "jitter");
  if (status.ok()) status = mtf::internal::CheckBelowOne("epsilon", epsilon);
  if (!status.ok()) {
    return graph.Fail(status, "jitter", location, x.shape(), x.dtype());
  }
  if (epsilon == 0 || graph.mode() == Mode::kEvaluate) return x;
  return x * internal::To(x.dtype(), RandomUniform(graph, x.shape(),
                                                   1 - epsilon, 1 + epsilon));
}

Tensor AnnealedDropout(Tensor x, Tensor rate, std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, "annealed_dropout", location);
  const absl::Status status = CheckRate(x, rate);
  if (!status.ok()) {
    return graph.Fail(status, "annealed_dropout", location, x.shape(),
                      x.dtype());
  }
  if (graph.mode() == Mode::kEvaluate) return x;
  rate = StopGradient(rate);
  const Tensor keep = GreaterEqual(RandomUniform(graph, x.shape(), 0, 1), rate);
  return Select(keep, x * internal::To(x.dtype(), Reciprocal(1.0 - rate)), 0.0);
}

}  // namespace mtf::nn
