// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/rezero.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/constant.h"
#include "ops/elementwise.h"

namespace mtf::nn {

Tensor Rezero(Tensor x, RezeroOptions options, std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  absl::Status status = internal::CheckFloat(x, "rezero");
  for (const Dimension& own : options.each) {
    if (status.ok()) status = internal::CheckDimension(x, own);
  }
  if (status.ok() && !std::isfinite(options.initial)) {
    status = absl::InvalidArgumentError(
        absl::StrCat(".initial is ", options.initial, ", not finite"));
  }
  if (!status.ok()) {
    return graph.Fail(status, internal::DescribeLayer("rezero", options.name),
                      location, x.shape(), x.dtype());
  }
  x = internal::To(ActivationDType(x), x);
  return x * Parameter(graph, "scale",
                       Constant(graph, options.initial, kFloat32, options.each),
                       x.dtype());
}

}  // namespace mtf::nn
