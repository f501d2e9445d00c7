// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/gelu_gradient.h"

#include <cmath>
#include <vector>

#include "mtf/scalar_functions.h"

namespace mtf {
namespace {

using F = ScalarFunction;

// Sample points. Two functions of the allowed steps that agree at all of them
// are equal: a polynomial in tanh and its argument has fewer zeros by chance.
constexpr double kSamplePoints[] = {-7.1, -3.3, -1.7,  -0.9, -0.31, -0.02, 0.0,
                                    0.04, 0.27, 0.751, 1.3,  2.2,   3.9,   6.4};

// The functions that occur in the gradient of GELU.
bool IsAllowedStep(F function) {
  switch (function) {
    case F::kLiteral:
    case F::kAdd:
    case F::kSubtract:
    case F::kMultiply:
    case F::kDivide:
    case F::kNegate:
    case F::kSquare:
    case F::kTanh:
    case F::kIdentity:
      return true;
    default:
      return false;
  }
}

// Evaluates an expression of two operands without rounding to its dtypes.
double Evaluate(const MapExpression& expression, double a, double b) {
  std::vector<double> numbers = {a, b};
  for (const MapStep& step : expression.steps) {
    if (step.function == F::kLiteral) {
      numbers.push_back(step.literal);
      continue;
    }
    const auto argument = [&](size_t i) {
      return i < step.arguments.size() ? numbers[step.arguments[i]] : 0.0;
    };
    numbers.push_back(EvaluateScalar(step.function, argument(0), argument(1)));
  }
  return numbers.back();
}

}  // namespace

std::optional<GeluGradient> FindGeluGradient(const MapExpression& expression) {
  if (expression.num_operands != 2) return std::nullopt;
  bool has_tanh = false;
  for (const MapStep& step : expression.steps) {
    if (!IsAllowedStep(step.function)) return std::nullopt;
    has_tanh = has_tanh || step.function == F::kTanh;
  }
  if (!has_tanh) return std::nullopt;
  for (const GeluGradient gradient : {GeluGradient{0, 1}, GeluGradient{1, 0}}) {
    bool matches = true;
    for (double slope : {1.0, -0.625}) {
      for (double x : kSamplePoints) {
        const double value = gradient.x == 1 ? Evaluate(expression, slope, x)
                                             : Evaluate(expression, x, slope);
        // Written so that a NaN does not match.
        matches = matches && std::abs(value - slope * GeluSlope(x)) <= 1e-9;
      }
    }
    if (matches) return gradient;
  }
  return std::nullopt;
}

}  // namespace mtf
