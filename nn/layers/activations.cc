// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/activations.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/custom_gradient.h"

namespace mtf::nn {
namespace {

// The value at `x` of the polynomial with these coefficients, lowest first.
Tensor Polynomial(Tensor x, const std::vector<double>& coefficients) {
  Tensor y = Like(x, coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) {
    y = y * x + coefficients[i];
  }
  return y;
}

// The error function as x * p(x^2) / q(x^2), a fit of the least relative error,
// 2e-8, in [-3.9, 3.9]; beyond, it differs from its sign by less than 4e-8.
Tensor Erf(Tensor x) {
  const Tensor bounded = Maximum(Minimum(x, 3.9), -3.9);
  const Tensor square = Square(bounded);
  const Tensor p =
      Polynomial(square, {1.128379147625933, 0.18966723157202886,
                          0.05266813502707954, 0.0037383635585929824,
                          0.0002850626062089723, 2.066470052962576e-06});
  const Tensor q =
      Polynomial(square, {1.0, 0.501420989032871, 0.11381912519146524,
                          0.014914311415939116, 0.0011573804725411264,
                          3.827000952647893e-05});
  return bounded * p / q;
}

}  // namespace

Tensor ExactGelu(Tensor x, std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, "exact_gelu", location);
  const absl::Status status = internal::CheckFloat(x, "exact_gelu");
  if (!status.ok()) {
    return graph.Fail(status, "exact_gelu", location, x.shape(), x.dtype());
  }
  const DType dtype = x.dtype();
  const Tensor wide = internal::To(kFloat32, x);
  const Tensor phi = 0.5 + 0.5 * Erf(wide * (1 / std::numbers::sqrt2));
  const Tensor y = internal::To(dtype, wide * phi);
  // Parts of a quotient would be kept for its gradient; this needs x only.
  return CustomGradient(
      {y}, {x},
      [wide, phi, dtype](const std::vector<Tensor>& dy) {
        const double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
        const Tensor density = scale * Exp(-0.5 * Square(wide));
        const Tensor slope = phi + wide * density;
        return std::vector<Tensor>{
            internal::To(dtype, internal::To(kFloat32, dy[0]) * slope)};
      },
      location)[0];
}

}  // namespace mtf::nn
