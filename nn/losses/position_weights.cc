// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/position_weights.h"

#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/reshape.h"

namespace mtf::nn::internal {

absl::Status CheckWeights(Tensor weights, Tensor targets) {
  if (!weights.valid()) return absl::OkStatus();
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(targets.graph(), {weights}));
  for (const Dimension& dim : weights.shape()) {
    MTF_RETURN_IF_ERROR(CheckDimension(targets, dim));
  }
  return absl::OkStatus();
}

double CountOf(const Shape& shape, const Shape& reduced) {
  double count = 1;
  for (const Dimension& dim : shape) {
    if (!reduced.Contains(dim.name)) count *= static_cast<double>(dim.size);
  }
  return count;
}

Tensor TotalOf(const Shape& positions, Tensor weights) {
  const Tensor total =
      ReduceSum(weights, {}) * CountOf(positions, weights.shape());
  return Select(Equal(total, 0.0), 1.0, total);
}

Tensor FactorsOf(const Shape& positions, Tensor weights, bool per_position) {
  if (!weights.valid()) return {};
  Tensor factors = To(kFloat32, weights);
  if (!per_position) factors = factors / TotalOf(positions, factors);
  return Broadcast(factors, positions);
}

Tensor Weighted(Tensor loss, Tensor weights) {
  return Select(Equal(weights, 0.0), 0.0, loss * weights);
}

Tensor Reduce(Tensor loss, Tensor factors, bool per_position) {
  if (!factors.valid()) return per_position ? loss : ReduceMean(loss, {});
  const Tensor weighted = Weighted(loss, factors);
  return per_position ? weighted : ReduceSum(weighted, {});
}

}  // namespace mtf::nn::internal
