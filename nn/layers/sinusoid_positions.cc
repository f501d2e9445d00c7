// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/sinusoid_positions.h"

#include <cmath>
#include <vector>

#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

absl::Status Check(Tensor positions, const Shape& result, double base) {
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckNumber(positions, "sinusoid_positions"));
  MTF_RETURN_IF_ERROR(result.Validate());
  return mtf::internal::CheckPositive(".base", base);
}

}  // namespace

Tensor SinusoidPositions(Tensor positions, Dimension d_model,
                         SinusoidPositionsOptions options,
                         std::source_location location) {
  if (!positions.valid()) return {};
  Graph& graph = positions.graph();
  LayerScope layer(graph, "sinusoid_positions", location);
  const Shape result = internal::Join(positions.shape(), {d_model});
  const absl::Status status = Check(positions, result, options.base);
  if (!status.ok()) {
    return graph.Fail(status, "sinusoid_positions", location, result);
  }
  std::vector<double> frequencies, is_sine;
  for (int64_t i = 0; i < d_model.size; ++i) {
    const double exponent =
        static_cast<double>(i - i % 2) / static_cast<double>(d_model.size);
    frequencies.push_back(std::pow(options.base, -exponent));
    is_sine.push_back(i % 2 == 0 ? 1 : 0);
  }
  const Tensor angles = Cast(positions, kFloat32) *
                        Constant(graph, frequencies, kFloat32, {d_model});
  return Select(Constant(graph, is_sine, kBool, {d_model}), Sin(angles),
                Cos(angles));
}

}  // namespace mtf::nn
