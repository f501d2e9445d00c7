// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/softmax.h"

#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf::nn {
namespace {

// A sum of exp(x - max) is at least 1, the term of the maximum, unless every x
// is -infinity. This lower limit changes only the latter, whose gradient
// becomes 0.
constexpr double kBelowAnySum = 0.5;

absl::Status Check(Tensor x, const Dimension& dim, absl::string_view what) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, what));
  return internal::CheckDimension(x, dim);
}

}  // namespace

Tensor Softmax(Tensor x, Dimension dim, std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), "softmax", location);
  const absl::Status status = Check(x, dim, "softmax");
  if (!status.ok()) {
    return x.graph().Fail(status, "softmax", location, x.shape(), x.dtype());
  }
  const Shape rest = x.shape().Without(dim.name);
  const Tensor wide = internal::To(kFloat32, x);
  const Tensor power = Exp(wide - internal::SafeMax(wide, rest));
  const Tensor sum = Maximum(ReduceSum(power, rest), kBelowAnySum);
  // Multiply by the reciprocal: the gradient of a product reads only `power`,
  // that of a quotient also the quotient. In attention this saves keeping the
  // largest tensor of a layer.
  return internal::To(x.dtype(), power * Reciprocal(sum));
}

Tensor LogSoftmax(Tensor x, Dimension dim, std::source_location location) {
  if (!x.valid()) return {};
  LayerScope layer(x.graph(), "log_softmax", location);
  const absl::Status status = Check(x, dim, "log_softmax");
  if (!status.ok()) {
    return x.graph().Fail(status, "log_softmax", location, x.shape(),
                          x.dtype());
  }
  const Shape rest = x.shape().Without(dim.name);
  const Tensor wide = internal::To(kFloat32, x);
  const Tensor shifted = wide - internal::SafeMax(wide, rest);
  const Tensor sum = Maximum(ReduceSum(Exp(shifted), rest), kBelowAnySum);
  return internal::To(x.dtype(), shifted - Log(sum));
}

}  // namespace mtf::nn
