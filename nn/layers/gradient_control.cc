// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/gradient_control.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/custom_gradient.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf::nn {
namespace {

absl::Status CheckStraightThrough(Tensor value, Tensor x) {
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(x.graph(), {value, x}));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(value, "straight_through"));
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "straight_through"));
  return mtf::internal::CheckSameDimensions(value, x, {value, x});
}

}  // namespace

Tensor ScaleGradient(Tensor x, double scale, std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), "scale_gradient", location);
  absl::Status status = internal::CheckFloat(x, "scale_gradient");
  if (status.ok() && !std::isfinite(scale)) {
    status = absl::InvalidArgumentError(
        absl::StrCat("the scale ", scale, " is not finite"));
  }
  if (!status.ok()) {
    return x.graph().Fail(status, "scale_gradient", location, x.shape(),
                          x.dtype());
  }
  return CustomGradient({x}, {x}, [scale](const std::vector<Tensor>& dy) {
    return std::vector<Tensor>{dy[0] * scale};
  })[0];
}

Tensor ClipActivationGradient(Tensor x, double rms,
                              std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), "clip_activation_gradient", location);
  absl::Status status = internal::CheckFloat(x, "clip_activation_gradient");
  if (status.ok()) status = mtf::internal::CheckPositive("rms", rms);
  if (!status.ok()) {
    return x.graph().Fail(status, "clip_activation_gradient", location,
                          x.shape(), x.dtype());
  }
  return CustomGradient({x}, {x}, [rms](const std::vector<Tensor>& dy) {
    const Tensor wide = internal::To(kFloat32, dy[0]);
    // A gradient of 0 has the factor 1.
    const Tensor factor =
        Minimum(rms * Rsqrt(ReduceMean(Square(wide), {})), 1.0);
    return std::vector<Tensor>{internal::To(dy[0].dtype(), wide * factor)};
  })[0];
}

Tensor StraightThrough(Tensor value, Tensor x, std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({value, x});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, "straight_through", location);
  const absl::Status status = x.valid()
                                  ? CheckStraightThrough(value, x)
                                  : mtf::internal::CheckInputs(*graph, {x});
  if (!status.ok()) {
    return graph->Fail(status, "straight_through", location, value.shape());
  }
  return CustomGradient({value}, {x},
                        [](const std::vector<Tensor>& dy) { return dy; })[0];
}

}  // namespace mtf::nn
