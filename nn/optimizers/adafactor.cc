// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/adafactor.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "mtf/dimension.h"
#include "mtf/status.h"
#include "nn/optimizers/common_options.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

namespace mtf::nn {
namespace {

// The largest dimension of a parameter, then the second largest; among equal
// ones the first. Empty if the second moment is not factored.
std::vector<Dimension> FactoredDimensions(const VariableInfo& parameter,
                                          const AdafactorOptions& o) {
  std::vector<Dimension> dims;
  for (const Dimension& dim : parameter.shape) {
    if (!absl::c_linear_search(o.stacked, dim.name)) dims.push_back(dim);
  }
  std::stable_sort(
      dims.begin(), dims.end(),
      [](const Dimension& a, const Dimension& b) { return a.size > b.size; });
  if (dims.size() < 2 || dims[1].size < o.min_factored_size) return {};
  if (MatchesAny(o.unfactored, parameter.name)) return {};
  dims.resize(2);
  return dims;
}

// Of each of the parameters that are stacked in `x`.
Tensor RootMeanSquare(Tensor x, const AdafactorOptions& o) {
  Shape stack;
  for (const Dimension& dim : x.shape()) {
    if (absl::c_linear_search(o.stacked, dim.name)) stack = stack.With(dim);
  }
  return Sqrt(ReduceMean(Square(x), stack));
}

// The gradient divided by the root of its second moment, which is updated.
Tensor Precondition(ParameterUpdate& p, Tensor decay,
                    const AdafactorOptions& o) {
  const Shape& shape = p.variable.shape;
  const Tensor square = Square(p.gradient) + o.epsilon1;
  const auto average = [&](absl::string_view name, const Shape& kept) {
    const Tensor state = p.State(name, kept);
    const Tensor now = kept == shape ? square : ReduceMean(square, kept);
    const Tensor value = decay * state + (1.0 - decay) * now;
    p.SetState(state, value);
    return value;
  };
  const std::vector<Dimension> dims = FactoredDimensions(p.variable, o);
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
  if (o.beta2) {
    MTF_RETURN_IF_ERROR(mtf::internal::CheckBelowOne(".beta2", *o.beta2));
  }
  if (o.min_factored_size >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      ".min_factored_size is ", o.min_factored_size, ", less than 0"));
}

// The share that the second moments of a step keep.
Tensor Decay(Tensor step, const AdafactorOptions& o) {
  const Tensor t = step + 1.0;
  if (!o.beta2) return 1.0 - Pow(t, -o.decay_exponent);
  return *o.beta2 * (1.0 - Pow(*o.beta2, step)) / (1.0 - Pow(*o.beta2, t));
}

// The new value of a parameter.
Tensor Update(ParameterUpdate& p, Tensor decay, Tensor learning_rate,
              const AdafactorOptions& o) {
  Tensor update = Precondition(p, decay, o);
  Tensor rate = learning_rate;
  if (o.multiply_by_parameter_scale &&
      !MatchesAny(o.unscaled, p.variable.name)) {
    rate = rate * Maximum(RootMeanSquare(p.value, o), o.epsilon2);
  }
  if (o.clipping_threshold != 0) {
    rate =
        rate / Maximum(RootMeanSquare(update, o) / o.clipping_threshold, 1.0);
  }
  update = rate * update;
  if (o.beta1 != 0) {
    const Tensor m = p.State("m", p.variable.shape);
    update = o.beta1 * m + (1.0 - o.beta1) * update;
    p.SetState(m, update);
  }
  Tensor value = p.value;
  if (p.weight_decay != 0) {
    value = value * (1.0 - p.weight_decay * learning_rate);
  }
  return value - update;
}

}  // namespace

Optimizer Adafactor(AdafactorOptions o) {
  const double relative = o.multiply_by_parameter_scale ? 1.0 : 0.05;
  const Schedule relative_step(Schedule::Function([relative](Tensor step) {
    return relative * Minimum(Rsqrt(step + 1.0), 0.01);
  }));
  const auto make_rule = [o](Tensor step, Tensor learning_rate) {
    const Tensor decay = Decay(step, o);
    return [o, decay, learning_rate](ParameterUpdate& p) {
      return Update(p, decay, learning_rate, o);
    };
  };
  OptimizerOptions options = internal::CommonOptions(
      o, o.learning_rate.value_or(relative_step), make_rule, Check(o));
  options.patterns = o.unfactored;
  options.patterns.insert(options.patterns.end(), o.unscaled.begin(),
                          o.unscaled.end());
  options.dimensions = o.stacked;
  return Optimizer(options);
}

}  // namespace mtf::nn
