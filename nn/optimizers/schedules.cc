// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/schedules.h"

#include <cstddef>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

// A schedule that records `status` in the graph when it is asked for a value:
// no graph exists when a schedule is created.
Schedule Invalid(absl::Status status, absl::string_view what,
                 std::source_location location) {
  return Schedule([=, what = std::string(what)](Tensor step) {
    return step.graph().Fail(status, what, location);
  });
}

// 0 until `begin`, 1 from `end` on, linear in between.
Tensor Progress(Tensor step, int64_t begin, int64_t end) {
  // The difference of any two int64 numbers fits into a uint64.
  const double steps = static_cast<double>(static_cast<uint64_t>(end) -
                                           static_cast<uint64_t>(begin));
  const Tensor line = (step - static_cast<double>(begin)) / steps;
  return Minimum(Maximum(line, 0.0), 1.0);
}

absl::Status CheckDecay(int64_t begin, int64_t end, double final_value) {
  if (end <= begin) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a decay must end after it begins, not at ", end, " from ", begin));
  }
  return mtf::internal::CheckNotNegative("final_value", final_value);
}

absl::Status CheckSteps(int64_t steps) {
  if (steps >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a schedule takes at least 1 step, not ", steps));
}

absl::Status CheckPoints(const std::vector<SchedulePoint>& points) {
  if (points.empty()) {
    return absl::InvalidArgumentError("a piecewise schedule has no points");
  }
  for (size_t i = 0; i < points.size(); ++i) {
    MTF_RETURN_IF_ERROR(mtf::internal::CheckNotNegative(
        absl::StrCat("the value at step ", points[i].step), points[i].value));
    if (i == 0 || points[i - 1].step < points[i].step) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the steps of a piecewise schedule must increase, not go from ",
        points[i - 1].step, " to ", points[i].step));
  }
  return absl::OkStatus();
}

absl::Status CheckTriangle(int64_t steps, double cut_fraction, double ratio) {
  MTF_RETURN_IF_ERROR(CheckSteps(steps));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckPositive("cut_fraction", cut_fraction));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckBelowOne("cut_fraction", cut_fraction));
  MTF_RETURN_IF_ERROR(mtf::internal::CheckPositive("ratio", ratio));
  if (ratio >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ratio is ", ratio, ", less than 1"));
}

}  // namespace

Schedule::Schedule(double value, std::source_location location)
    : function_([value, location](Tensor step) {
        const absl::Status status =
            mtf::internal::CheckNotNegative("a schedule", value);
        if (status.ok()) {
          return Constant(step.graph(), value, kFloat32, {}, location);
        }
        return step.graph().Fail(status, "schedule", location);
      }) {}

Schedule::Schedule(Function function) : function_(std::move(function)) {}

Tensor Schedule::At(Tensor step) const {
  return step.valid() && function_ != nullptr ? function_(step) : Tensor();
}

Schedule LinearWarmup(int64_t steps, std::source_location location) {
  const absl::Status status = CheckSteps(steps);
  if (!status.ok()) return Invalid(status, "linear_warmup", location);
  return Schedule([steps](Tensor step) {
    return Minimum((step + 1.0) / static_cast<double>(steps), 1.0);
  });
}

Schedule LinearDecay(int64_t begin, int64_t end, double final_value,
                     std::source_location location) {
  const absl::Status status = CheckDecay(begin, end, final_value);
  if (!status.ok()) return Invalid(status, "linear_decay", location);
  return Schedule([=](Tensor step) {
    return 1.0 - (1.0 - final_value) * Progress(step, begin, end);
  });
}

Schedule CosineDecay(int64_t begin, int64_t end, double final_value,
                     std::source_location location) {
  const absl::Status status = CheckDecay(begin, end, final_value);
  if (!status.ok()) return Invalid(status, "cosine_decay", location);
  return Schedule([=](Tensor step) {
    const Tensor angle = std::numbers::pi * Progress(step, begin, end);
    return final_value + 0.5 * (1.0 - final_value) * (1.0 + Cos(angle));
  });
}

Schedule RsqrtDecay(int64_t steps, std::source_location location) {
  const absl::Status status = CheckSteps(steps);
  if (!status.ok()) return Invalid(status, "rsqrt_decay", location);
  return Schedule([steps](Tensor step) {
    const double first = static_cast<double>(steps);
    return Sqrt(first / Maximum(step + 1.0, first));
  });
}

Schedule SlantedTriangular(int64_t steps, double cut_fraction, double ratio,
                           std::source_location location) {
  const absl::Status status = CheckTriangle(steps, cut_fraction, ratio);
  if (!status.ok()) return Invalid(status, "slanted_triangular", location);
  return Schedule([=](Tensor step) {
    const double last = static_cast<double>(steps);
    const double cut = cut_fraction * last;
    const Tensor rising = step / cut;
    const Tensor falling = (last - step) / (last - cut);
    const Tensor p = Maximum(Minimum(rising, falling), 0.0);
    return (1.0 + (ratio - 1.0) * p) / ratio;
  });
}

Schedule PiecewiseConstant(std::vector<SchedulePoint> points,
                           std::source_location location) {
  const absl::Status status = CheckPoints(points);
  if (!status.ok()) return Invalid(status, "piecewise_constant", location);
  return Schedule([points = std::move(points)](Tensor step) {
    Tensor value = Like(step, points[0].value);
    for (size_t i = 1; i < points.size(); ++i) {
      const double begin = static_cast<double>(points[i].step);
      value = Select(GreaterEqual(step, begin), points[i].value, value);
    }
    return value;
  });
}

Schedule PiecewiseLinear(std::vector<SchedulePoint> points,
                         std::source_location location) {
  const absl::Status status = CheckPoints(points);
  if (!status.ok()) return Invalid(status, "piecewise_linear", location);
  return Schedule([points = std::move(points)](Tensor step) {
    Tensor value = Like(step, points[0].value);
    for (size_t i = 1; i < points.size(); ++i) {
      const double rise = points[i].value - points[i - 1].value;
      value = value + rise * Progress(step, points[i - 1].step, points[i].step);
    }
    return value;
  });
}

Schedule Product(std::vector<Schedule> factors) {
  return Schedule([factors = std::move(factors)](Tensor step) {
    if (factors.empty()) return Schedule(1.0).At(step);
    Tensor product = factors[0].At(step);
    for (size_t i = 1; i < factors.size(); ++i) {
      const Tensor factor = factors[i].At(step);
      if (!product.valid() || !factor.valid()) return Tensor();
      product = product * factor;
    }
    return product;
  });
}

Schedule operator*(Schedule a, Schedule b) {
  return Product({std::move(a), std::move(b)});
}

}  // namespace mtf::nn
