// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/loss_scale.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"
#include "nn/layers/layer.h"
#include "nn/optimizers/state.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/variable.h"

namespace mtf::nn::internal {

bool NeedsLossScale(Tensor loss) {
  std::vector<const Operation*> open = {loss.operation()};
  std::vector<bool> seen(loss.operation()->id() + 1, false);
  while (!open.empty()) {
    const Operation* operation = open.back();
    open.pop_back();
    if (seen[operation->id()]) continue;
    seen[operation->id()] = true;
    if (operation->dtype() == kFloat16) return true;
    for (const Tensor& input : operation->inputs()) {
      if (IsFloat(input.dtype())) open.push_back(input.operation());
    }
  }
  return false;
}

absl::Status CheckLossScale(const LossScaleOptions& o) {
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckPositive(".loss_scale.initial", o.initial));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckPositive(".loss_scale.least", o.least));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckPositive(".loss_scale.most", o.most));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckPositive(".loss_scale.backoff", o.backoff));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckPositive(".loss_scale.growth", o.growth));
  if (o.backoff >= 1 || o.growth < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".loss_scale.backoff is ", o.backoff, " and .loss_scale.growth ",
        o.growth, ": backoff must be less than 1, growth at least 1"));
  }
  if (o.growth_interval < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".loss_scale.growth_interval is ", o.growth_interval, ", less than 1"));
  }
  return absl::OkStatus();
}

LossScale LossScale::Make(Graph& graph, const LossScaleOptions& options) {
  return {
      Variable(graph, "loss_scale",
               Constant(graph, options.initial, kFloat32, {}), kState),
      Variable(graph, "loss_scale_updates", Zeros(graph, kInt32, {}), kState)};
}

std::vector<Tensor> LossScale::Unscale(std::vector<Tensor> gradients) const {
  const Tensor factor = 1.0 / scale;
  for (Tensor& gradient : gradients) {
    if (!gradient.valid()) continue;
    const RulesScope rules(gradient);
    gradient = To(kFloat32, gradient) * factor;
  }
  return gradients;
}

std::vector<Tensor> LossScale::Update(Tensor finite,
                                      const LossScaleOptions& o) const {
  const Tensor count = updates + 1.0;
  const Tensor grows = LogicalAnd(
      finite, GreaterEqual(count, static_cast<double>(o.growth_interval)));
  const Tensor kept = Select(grows, Minimum(scale * o.growth, o.most), scale);
  const Tensor next = Select(finite, kept, Maximum(scale * o.backoff, o.least));
  const Tensor starts_again = LogicalOr(grows, LogicalNot(finite));
  return {Assign(scale, next),
          Assign(updates, Select(starts_again, 0.0, count))};
}

Tensor AllFinite(const std::vector<Tensor>& gradients) {
  // Count the elements that are not finite. The counts are added before they
  // are all_reduced. A large count may be rounded, but not to 0.
  std::vector<Tensor> counts;
  for (const Tensor& gradient : gradients) {
    if (!gradient.valid()) continue;
    const RulesScope rules(gradient);
    const Tensor finite =
        LessEqual(Abs(gradient), double{std::numeric_limits<float>::max()});
    counts.push_back(ReduceSum(Cast(LogicalNot(finite), kFloat32), {}));
  }
  return Equal(AddN(std::move(counts)), 0.0);
}

}  // namespace mtf::nn::internal
