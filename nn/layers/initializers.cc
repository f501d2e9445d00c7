// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/initializers.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <source_location>

#include "absl/strings/str_cat.h"
#include "mtf/dimension.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/orthogonalize.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/reshape.h"

namespace mtf::nn {
namespace {

using internal::Join;

constexpr RandomOptions kOnce = {.per_step = false};

// As a double, because a wrong shape, which RandomNormal rejects, may have more
// elements than an int64_t can count.
double ElementsOf(const Shape& shape) {
  double elements = 1;
  for (const Dimension& dim : shape) elements *= static_cast<double>(dim.size);
  return std::max(elements, 1.0);
}

// Normal numbers within two standard deviations, with the standard deviation
// `stddev`: the inverse of the distribution function, in the approximation of
// Giles, 2010, for numbers that are not in the tails.
Tensor TruncatedNormal(Graph& graph, const Shape& shape, double stddev) {
  // Of a normal distribution of deviation 1 that is truncated at 2.
  constexpr double kDeviation = 0.87962566103423978;
  constexpr double kCoefficients[] = {
      2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
      -4.39150654e-06, 0.00021858087,  -0.00125372503,
      -0.00417768164,  0.246640727,    1.50140941};
  const double bound = std::erf(std::numbers::sqrt2);
  const Tensor u = RandomUniform(graph, shape, -bound, bound, kOnce);
  const Tensor w = -Log(1.0 - u * u) - 2.5;
  Tensor inverse = Like(w, 0);
  for (const double coefficient : kCoefficients) {
    inverse = inverse * w + coefficient;
  }
  return (stddev / kDeviation * std::numbers::sqrt2) * (inverse * u);
}

// Semi-orthogonal matrices. They are computed over dimensions that no layout
// shards or pads, so that sums have the same order everywhere. Merged into one
// dimension and split again, these have nothing in common with those of the
// result, as renamed dimensions would.
Tensor OrthogonalMatrices(Graph& graph, const KernelShape& kernel) {
  const Dimension in{"orthogonal_in", kernel.fan_in.num_elements()};
  const Dimension out{"orthogonal_out", kernel.fan_out.num_elements()};
  const Shape rows = {in.size > out.size ? out : in};
  Shape stack;
  if (kernel.each.rank() > 0) {
    stack = {{"orthogonal_each", kernel.each.num_elements()}};
  }
  Tensor x = RandomNormal(graph, Join(stack, {in, out}), 0, 1, kOnce);
  x = internal::Normalized(x, stack, 1e-30);
  // 3.4^14 is 3e7: enough for the smallest singular values.
  for (int i = 0; i < 14; ++i) {
    x = internal::OrthogonalizeStep(x, stack, rows, internal::kFastQuintic);
  }
  for (int i = 0; i < 6; ++i) {
    x = internal::OrthogonalizeStep(x, stack, rows, internal::kCubic);
  }
  x = Reshape(x, {{"orthogonal", x.shape().num_elements()}});
  return Reshape(x, kernel.Joined());
}

}  // namespace

Shape KernelShape::Joined() const { return Join(each, Join(fan_in, fan_out)); }

Initializer VarianceScaling(VarianceScalingOptions options) {
  return [options](Graph& graph, const KernelShape& kernel) {
    const Shape shape = kernel.Joined();
    const absl::Status status =
        mtf::internal::CheckNotNegative(".scale", options.scale);
    if (!status.ok()) {
      return graph.Fail(status, "variance_scaling",
                        std::source_location::current(), shape);
    }
    const double in = ElementsOf(kernel.fan_in);
    const double out =
        ElementsOf(kernel.fan_out) * static_cast<double>(kernel.window);
    const double fan = options.fan == Fan::kIn    ? in
                       : options.fan == Fan::kOut ? out
                                                  : (in + out) / 2;
    const double stddev = std::sqrt(options.scale / fan);
    if (options.distribution == Distribution::kNormal) {
      return RandomNormal(graph, shape, 0, stddev, kOnce);
    }
    if (options.distribution == Distribution::kTruncatedNormal) {
      return TruncatedNormal(graph, shape, stddev);
    }
    const double limit = std::sqrt(3.0) * stddev;
    return RandomUniform(graph, shape, -limit, limit, kOnce);
  };
}

Initializer LeCun(Distribution distribution) {
  return VarianceScaling({.distribution = distribution});
}

Initializer He(Distribution distribution) {
  return VarianceScaling({.scale = 2, .distribution = distribution});
}

Initializer Glorot(Distribution distribution) {
  return VarianceScaling({.fan = Fan::kAverage, .distribution = distribution});
}

Initializer Orthogonal(double gain) {
  return [gain](Graph& graph, const KernelShape& kernel) {
    const Shape shape = kernel.Joined();
    absl::Status status = mtf::internal::CheckNotNegative("gain", gain);
    if (status.ok()) status = shape.Validate();
    if (!status.ok()) {
      return graph.Fail(status, "orthogonal", std::source_location::current(),
                        shape);
    }
    return gain * OrthogonalMatrices(graph, kernel);
  };
}

Initializer ConstantValue(double value) {
  return [value](Graph& graph, const KernelShape& kernel) {
    return Constant(graph, value, kFloat32, kernel.Joined());
  };
}

namespace internal {

Tensor InitialValue(Graph& graph, const Initializer& init,
                    const KernelShape& kernel, absl::string_view name) {
  const Shape shape = kernel.Joined();
  const Tensor values = init(graph, kernel);
  if (values.valid() && values.dtype() == kFloat32 && values.shape() == shape) {
    return values;
  }
  return graph.Fail(
      absl::InvalidArgumentError(absl::StrCat(
          "the initializer of \"", name, "\" returned ",
          values.valid() ? DescribeTensor(values.dtype(), values.shape())
                         : "an empty Tensor",
          ", not ", DescribeTensor(kFloat32, shape))),
      "initializer", std::source_location::current(), shape);
}

absl::Status CheckUnused(absl::string_view option, const Initializer& init) {
  if (init == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      option, " has no effect with .init\n  help     give one of them"));
}

}  // namespace internal
}  // namespace mtf::nn
