// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/softmax.h"

#include "nn/layers/layer.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf::nn {
namespace {

// Where a sum of exp(x - max) has a term at all, the term of the maximum makes
// it at least 1; this lifts only the empty sum, whose gradient becomes 0.
constexpr double kBelowAnySum = 0.5;

absl::Status Check(Tensor x, const Dimension& dim, absl::string_view what) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, what));
  return internal::CheckDimension(x, dim);
}

}  // namespace

Tensor Softmax(Tensor x, Dimension dim, std::source_location location) {
  if (!x.valid()) return {};
  internal::LayerScope layer(x.graph(), "softmax", location);
  const absl::Status status = Check(x, dim, "softmax");
  if (!status.ok()) {
    return x.graph().Fail(status, "softmax", location, x.shape(), x.dtype());
  }
  const Shape rest = x.shape().Without(dim.name);
  const Tensor wide = internal::To(kFloat32, x);
  const Tensor power = Exp(wide - internal::SafeMax(wide, rest));
  const Tensor sum = Maximum(ReduceSum(power, rest), kBelowAnySum);
  // A product, because its gradient reads `power` alone, and that of a quotient
  // the quotient too: in attention, the largest tensor of a layer less to keep.
  return internal::To(x.dtype(), power * Reciprocal(sum));
}

Tensor LogSoftmax(Tensor x, Dimension dim, std::source_location location) {
  if (!x.valid()) return {};
  internal::LayerScope layer(x.graph(), "log_softmax", location);
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
