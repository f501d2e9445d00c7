// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/batch_norm.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/custom_gradient.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/slice.h"
#include "ops/track_average.h"
#include "ops/variable.h"

namespace mtf::nn {
namespace {

// The number of elements of each feature.
int64_t CountOf(Tensor x, const Dimension& features) {
  return x.shape().Without(features.name).num_elements();
}

absl::Status Check(Tensor x, const Dimension& features,
                   const BatchNormOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckFloat(x, "batch_norm"));
  MTF_RETURN_IF_ERROR(internal::CheckDimension(x, features));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckPositive(".epsilon", options.epsilon));
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".momentum is ", options.momentum, "; it must be from 0 to 1"));
  }
  if (x.graph().mode() == Mode::kEvaluate || CountOf(x, features) > 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", x.name(), "\" has ", CountOf(x, features), " elements of each \"",
      features.name, "\", but the variance of a batch needs two",
      DescribeInputs({x})));
}

// The parameters and averages of a layer, all [features] in f32; empty without
// the option.
struct BatchNormState {
  Tensor scale, bias, moving_mean, moving_variance;
};

BatchNormState MakeState(Graph& graph, const Shape& shape,
                         const BatchNormOptions& options) {
  BatchNormState state;
  const Tensor zeros = Zeros(graph, kFloat32, shape);
  const Tensor ones = Ones(graph, kFloat32, shape);
  if (options.scale) state.scale = Parameter(graph, "scale", ones, kFloat32);
  if (options.bias) state.bias = Parameter(graph, "bias", zeros, kFloat32);
  constexpr VariableOptions kUntrained = {.trainable = false};
  state.moving_mean = Variable(graph, "moving_mean", zeros, kUntrained);
  state.moving_variance = Variable(graph, "moving_variance", ones, kUntrained);
  return state;
}

// (x - mean) * rsqrt * scale + bias
Tensor Normalize(Tensor x, Tensor mean, Tensor rsqrt,
                 const BatchNormState& state) {
  const Tensor factor = state.scale.valid() ? rsqrt * state.scale : rsqrt;
  const Tensor y = (x - mean) * factor;
  return state.bias.valid() ? y + state.bias : y;
}

// The most elements of a feature that are worth a second reading.
constexpr int64_t kMostPivotElements = 256;

// A number for each feature near the mean of `x`, about which the sums are
// taken: the mean over the first element of the first dimension, usually the
// first example, and of further dimensions if that still has many elements.
//
// With p the mean of k of n elements, (mean - p)^2 <= (n / k - 1) * variance,
// so sum((x - p)^2) / n - (mean - p)^2 cancels a factor of n / k at most, which
// takes one part with all of the variance, and usually of 1 or 2. The moving
// mean costs nothing but is 0 in the first step: of a mean of 1000 deviations
// it would leave one digit of the variance. The mean itself takes a second
// sweep over `x`. Where the elements are sharded, either of the two needs one
// all_reduce of [features] before the sums, since ranks must share the number.
Tensor PivotOf(Tensor x, const Dimension& features) {
  const Shape shape = x.shape();
  for (const Dimension& dim : shape) {
    // A slice of one element stays on the rank that has it.
    if (dim.name == features.name || dim.size == 1) continue;
    x = Slice(x, dim.name, 0, 1);
    if (CountOf(x, features) <= kMostPivotElements) break;
  }
  const auto count = static_cast<double>(CountOf(x, features));
  return ReduceSum(internal::To(kFloat32, x), {features}) * (1 / count);
}

// The statistics of a batch. `distance` is x - pivot, `shift` its mean.
struct BatchStatistics {
  Tensor distance, shift, mean, rsqrt;
  double count = 0;
};

// Normalize() with the mean and the variance of `x`. With c = x - mean, the
// gradients are
//
//   dbias = sum(dy)
//   dscale = rsqrt * sum(dy * c) = rsqrt * (sum(dy * distance) - shift * dbias)
//   dx = scale * rsqrt * (dy - (dbias + c * rsqrt * dscale) / count)
//
// so those of the parameters serve that of x as well. The gradients of the
// parts would add up four tensors in place of two. The distances, which the
// statistics are sums of, and c are each computed where they are read: they
// cost less than to keep either of them.
Tensor NormalizeByOwn(Tensor x, const BatchStatistics& of,
                      const BatchNormState& state) {
  std::vector<Tensor> inputs = {x};
  if (state.scale.valid()) inputs.push_back(state.scale);
  if (state.bias.valid()) inputs.push_back(state.bias);
  const Shape shape = of.mean.shape();
  return CustomGradient(
      {Normalize(x, of.mean, of.rsqrt, state)}, inputs,
      [=](const std::vector<Tensor>& of_outputs) {
        const Tensor& dy = of_outputs[0];
        const Tensor dbias = ReduceSum(dy, shape);
        const Tensor dscale =
            (ReduceSum(dy * of.distance, shape) - of.shift * dbias) * of.rsqrt;
        const Tensor factor =
            state.scale.valid() ? of.rsqrt * state.scale : of.rsqrt;
        const double part = 1 / of.count;
        const Tensor of_statistics =
            dbias * part + (x - of.mean) * (dscale * of.rsqrt * part);
        std::vector<Tensor> gradients = {(dy - of_statistics) * factor};
        if (state.scale.valid()) gradients.push_back(dscale);
        if (state.bias.valid()) gradients.push_back(dbias);
        return gradients;
      })[0];
}

}  // namespace

Tensor BatchNorm(Tensor x, const Dimension& features,
                 const BatchNormOptions& options,
                 std::source_location location) {
  if (!x.valid()) return {};
  Graph& graph = x.graph();
  LayerScope layer(graph, options.name, location);
  const absl::Status status = Check(x, features, options);
  if (!status.ok()) {
    return graph.Fail(status,
                      internal::DescribeLayer("batch_norm", options.name),
                      location, x.shape(), x.dtype());
  }
  const Shape shape = {features};
  const BatchNormState state = MakeState(graph, shape, options);
  const DType dtype = ActivationDType(x);
  const Tensor given = x;
  x = internal::To(kFloat32, x);
  if (graph.mode() == Mode::kEvaluate) {
    const Tensor rsqrt = Rsqrt(state.moving_variance + options.epsilon);
    return internal::To(dtype, Normalize(x, state.moving_mean, rsqrt, state));
  }
  const auto count = static_cast<double>(CountOf(x, features));
  const Tensor pivot = PivotOf(given, features);
  const Tensor distance = x - pivot;
  const Tensor sum = ReduceSum(distance, shape);
  const Tensor sum_of_squares = ReduceSum(Square(distance), shape);
  const Tensor shift = sum * (1 / count);
  Tensor mean = shift + pivot;
  // Rounding must not make it negative.
  Tensor variance = Maximum(sum_of_squares * (1 / count) - Square(shift), 0.0);
  mean = TrackAverage(mean, state.moving_mean, mean, options.momentum);
  variance = TrackAverage(variance, state.moving_variance,
                          variance * (count / (count - 1)), options.momentum);
  const Tensor rsqrt = Rsqrt(variance + options.epsilon);
  return internal::To(
      dtype, NormalizeByOwn(x, {distance, shift, mean, rsqrt, count}, state));
}

}  // namespace mtf::nn
