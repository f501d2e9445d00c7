// SPDX-License-Identifier: Apache-2.0
#include "nn/schedules.h"

#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/graph.h"
#include "ops/constant.h"
#include "ops/elementwise.h"

namespace mtf::nn {
namespace {

// A schedule is made before there is a graph to tell of a wrong argument, so
// the error waits until it is asked for a value.
Schedule Invalid(std::string message, absl::string_view what,
                 std::source_location location) {
  return Schedule([=, what = std::string(what)](Tensor step) {
    return step.graph().Fail(absl::InvalidArgumentError(message), what,
                             location);
  });
}

// 0 up to `begin`, 1 from `end` on, a straight line between them.
Tensor Progress(Tensor step, int64_t begin, int64_t end) {
  const double steps = static_cast<double>(end - begin);
  const Tensor line = (step - static_cast<double>(begin)) / steps;
  return Minimum(Maximum(line, 0.0), 1.0);
}

std::string BadRange(int64_t begin, int64_t end) {
  return absl::StrCat("a decay ends after it begins, not at ", end, " from ",
                      begin);
}

std::string BadSteps(int64_t steps) {
  return absl::StrCat("a schedule takes at least 1 step, not ", steps);
}

}  // namespace

Schedule::Schedule(double value)
    : function_([value](Tensor step) {
        return Constant(step.graph(), value, kFloat32, {});
      }) {}

Schedule::Schedule(Function function) : function_(std::move(function)) {}

Tensor Schedule::At(Tensor step) const {
  return function_ == nullptr ? Tensor() : function_(step);
}

Schedule LinearWarmup(int64_t steps, std::source_location location) {
  if (steps < 1) return Invalid(BadSteps(steps), "linear_warmup", location);
  return Schedule([steps](Tensor step) {
    return Minimum((step + 1.0) / static_cast<double>(steps), 1.0);
  });
}

Schedule LinearDecay(int64_t begin, int64_t end, double final_value,
                     std::source_location location) {
  if (end <= begin) {
    return Invalid(BadRange(begin, end), "linear_decay", location);
  }
  return Schedule([=](Tensor step) {
    return 1.0 - (1.0 - final_value) * Progress(step, begin, end);
  });
}

Schedule CosineDecay(int64_t begin, int64_t end, double final_value,
                     std::source_location location) {
  if (end <= begin) {
    return Invalid(BadRange(begin, end), "cosine_decay", location);
  }
  return Schedule([=](Tensor step) {
    const Tensor angle = std::numbers::pi * Progress(step, begin, end);
    return final_value + 0.5 * (1.0 - final_value) * (1.0 + Cos(angle));
  });
}

Schedule RsqrtDecay(int64_t steps, std::source_location location) {
  if (steps < 1) return Invalid(BadSteps(steps), "rsqrt_decay", location);
  return Schedule([steps](Tensor step) {
    const double first = static_cast<double>(steps);
    return Sqrt(first / Maximum(step + 1.0, first));
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
