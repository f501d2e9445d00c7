// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/adafactor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mtf/dimension.h"
#include "mtf/status.h"
#include "nn/optimizers/optimizer.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf::nn {
namespace {

// The largest dimension of `shape`, then the second largest; among equal ones
// the first. Empty if the second moment is not factored.
std::vector<Dimension> FactoredDimensions(const Shape& shape,
                                          int64_t min_size) {
  std::vector<Dimension> dims = shape.dims();
  std::stable_sort(
      dims.begin(), dims.end(),
      [](const Dimension& a, const Dimension& b) { return a.size > b.size; });
  if (dims.size() < 2 || dims[1].size < min_size) return {};
  dims.resize(2);
  return dims;
}

Tensor RootMeanSquare(Tensor x) { return Sqrt(ReduceMean(Square(x), {})); }

// The gradient divided by the root of its second moment, which is updated.
Tensor Precondition(ParameterUpdate& p, Tensor beta2,
                    const AdafactorOptions& o) {
  const Shape& shape = p.variable.shape;
  const Tensor square = Square(p.gradient) + o.epsilon1;
  const auto average = [&](absl::string_view name, const Shape& kept) {
    const Tensor state = p.State(name, kept);
    const Tensor now = kept == shape ? square : ReduceMean(square, kept);
    const Tensor value = beta2 * state + (1.0 - beta2) * now;
    p.SetState(state, value);
    return value;
  };
  const std::vector<Dimension> dims =
      FactoredDimensions(shape, o.min_factored_size);
  if (dims.empty()) return p.gradient * Rsqrt(average("v", shape));
  const Tensor vr = average("vr", shape.Without(dims[0].name));
  const Tensor vc = average("vc", shape.Without(dims[1].name));
  // vr and vc both contain the overall scale; divide by it once.
  const Tensor mean = ReduceMean(vr, vr.shape().Without(dims[1].name));
  return p.gradient * Rsqrt(vr / mean) * Rsqrt(vc);
}

absl::Status Check(const AdafactorOptions& o) {
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckNotNegative(".decay_exponent", o.decay_exponent));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckBelowOne(".beta1", o.beta1));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckNotNegative(".clipping_threshold",
                                                      o.clipping_threshold));
  // With 0, the update would be NaN if the gradient has always been 0.
  MTF_RETURN_IF_ERROR(mtf::internal::CheckPositive(".epsilon1", o.epsilon1));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckNotNegative(".epsilon2", o.epsilon2));
  if (o.min_factored_size >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      ".min_factored_size is ", o.min_factored_size, ", less than 0"));
}

Optimizer OptimizerOf(const AdafactorOptions& o) {
  const double relative = o.multiply_by_parameter_scale ? 1.0 : 0.05;
  const Schedule relative_step(Schedule::Function([relative](Tensor step) {
    return relative * Minimum(Rsqrt(step + 1.0), 0.01);
  }));
  const auto make_rule = [o](Tensor step, Tensor learning_rate) {
    const Tensor beta2 = 1.0 - Pow(step + 1.0, -o.decay_exponent);
    return [o, beta2, learning_rate](ParameterUpdate& p) {
      Tensor update = Precondition(p, beta2, o);
      Tensor rate = learning_rate;
      if (o.multiply_by_parameter_scale) {
        rate = rate * Maximum(RootMeanSquare(p.value), o.epsilon2);
      }
      if (o.clipping_threshold != 0) {
        rate =
            rate / Maximum(RootMeanSquare(update) / o.clipping_threshold, 1.0);
      }
      update = rate * update;
      if (o.beta1 != 0) {
        const Tensor m = p.State("m", p.variable.shape);
        update = o.beta1 * m + (1.0 - o.beta1) * update;
        p.SetState(m, update);
      }
      return p.value - update;
    };
  };
  return Optimizer({.learning_rate = o.learning_rate.value_or(relative_step),
                    .make_rule = make_rule,
                    .max_gradient_norm = o.max_gradient_norm,
                    .loss_scale = o.loss_scale,
                    .status = Check(o),
                    .name = o.name});
}

}  // namespace

Tensor Adafactor::Minimize(Tensor loss, std::source_location location) const {
  return OptimizerOf(options_).Minimize(loss, location);
}

Tensor Adafactor::Apply(std::vector<Tensor> gradients,
                        std::vector<Tensor> variables,
                        std::source_location location) const {
  return OptimizerOf(options_).Apply(std::move(gradients), std::move(variables),
                                     location);
}

}  // namespace mtf::nn
