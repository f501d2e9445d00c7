// SPDX-License-Identifier: Apache-2.0
#include "lowering/linearity.h"

#include <cmath>

#include "absl/container/inlined_vector.h"

namespace mtf {
namespace {

// How the value of a step depends on the operands.
enum class Linearity { kConstant, kLinear, kOther };

}  // namespace

bool IsLinear(const MapExpression& expression,
              absl::Span<const DType> operand_dtypes) {
  absl::InlinedVector<Linearity, 16> classes(expression.num_operands,
                                             Linearity::kLinear);
  absl::InlinedVector<DType, 16> dtypes(operand_dtypes.begin(),
                                        operand_dtypes.end());
  for (const MapStep& step : expression.steps) {
    const auto of = [&](int i) { return classes[step.arguments[i]]; };
    const auto is_zero = [&](int argument) {
      return expression.steps[argument - expression.num_operands].literal == 0;
    };
    Linearity result = Linearity::kOther;
    switch (step.function) {
      case ScalarFunction::kLiteral:
        // Summands times an infinity may have two signs, their sum has one.
        if (std::isfinite(step.literal)) result = Linearity::kConstant;
        break;
      case ScalarFunction::kIdentity:
      case ScalarFunction::kNegate:
        result = of(0);
        break;
      case ScalarFunction::kCast:
        if (of(0) == Linearity::kConstant) {
          result = Linearity::kConstant;
        } else if (IsFloat(dtypes[step.arguments[0]]) &&
                   (step.dtype == kFloat32 ||
                    step.dtype == dtypes[step.arguments[0]])) {
          result = of(0);  // no f16 is a bf16, nor the other way round
        }
        break;
      case ScalarFunction::kAdd:
      case ScalarFunction::kSubtract:
        if (of(0) == of(1)) result = of(0);
        break;
      case ScalarFunction::kMultiply:
        if (of(0) == Linearity::kConstant) result = of(1);
        if (of(1) == Linearity::kConstant) result = of(0);
        break;
      case ScalarFunction::kDivide:
        if (of(1) == Linearity::kConstant && !is_zero(step.arguments[1])) {
          result = of(0);
        }
        break;
      default:
        break;
    }
    classes.push_back(result);
    dtypes.push_back(step.dtype);
  }
  return classes.back() == Linearity::kLinear;
}

}  // namespace mtf
