// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/unit_scaling.h"

#include <cmath>

#include "nn/layers/gradient_control.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

// 1 / sqrt(n) for a sum over the n elements of `all` for each of `kept`.
double ScaleOf(const Shape& all, const Shape& kept) {
  double elements = 1;
  for (const Dimension& dim : all) {
    if (!kept.Contains(dim.name)) elements *= static_cast<double>(dim.size);
  }
  return elements > 0 ? 1 / std::sqrt(elements) : 1;
}

}  // namespace

Tensor UnitScaledEinsum(std::vector<Tensor> inputs, Shape output,
                        UnitScalingOptions options,
                        std::source_location location) {
  Graph* graph = mtf::internal::GraphOf(inputs);
  if (graph == nullptr) return {};
  LayerScope layer(*graph, "unit_scaled_einsum", location);
  // Inputs that Einsum rejects stay as they are.
  if (!mtf::internal::CheckInputs(*graph, inputs).ok()) {
    return Einsum(inputs, output);
  }
  const Shape all = mtf::internal::BroadcastShape(inputs);
  double scale = ScaleOf(all, output);
  const double of_first = ScaleOf(all, inputs[0].shape());
  if (options.constrain) scale = std::sqrt(scale * of_first);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double of_input =
        i == 0 && options.constrain ? scale : ScaleOf(all, inputs[i].shape());
    // The value's scale multiplies the gradient, too.
    inputs[i] = ScaleGradient(inputs[i], of_input / scale);
  }
  return Einsum(inputs, output) * scale;
}

}  // namespace mtf::nn
