// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/linearity.h"

#include <cmath>

#include "absl/container/inlined_vector.h"
#include "mtf/host_tensor.h"

namespace mtf {
namespace {

// How a step depends on the operands.
enum class Linearity { kConstant, kLinear, kOther };

struct Term {
  Linearity linearity = Linearity::kOther;
  DType dtype = kFloat32;
  double number = 0;  // of a constant, rounded to its dtype
};

// Functions that copy, scale or add their arguments.
bool IsLinearFunction(ScalarFunction function) {
  switch (function) {
    case ScalarFunction::kIdentity:
    case ScalarFunction::kNegate:
    case ScalarFunction::kCast:
    case ScalarFunction::kAdd:
    case ScalarFunction::kSubtract:
    case ScalarFunction::kMultiply:
    case ScalarFunction::kDivide:
      return true;
    default:
      return false;
  }
}

// A step that depends on constants only. A constant that is not finite in its
// dtype does not count as a factor: summands of different signs times infinity
// do not add up to their sum times infinity.
Term Constant(double number, DType dtype) {
  number = RoundToDType(number, dtype);
  if (!std::isfinite(number)) return {Linearity::kOther, dtype, 0};
  return {Linearity::kConstant, dtype, number};
}

Linearity LinearityOf(const MapStep& step, const Term& x, const Term& y) {
  switch (step.function) {
    case ScalarFunction::kIdentity:
    case ScalarFunction::kNegate:
      return x.linearity;
    case ScalarFunction::kCast:
      // f16 and bf16 cannot represent each other.
      return IsFloat(x.dtype) &&
                     (step.dtype == kFloat32 || step.dtype == x.dtype)
                 ? x.linearity
                 : Linearity::kOther;
    case ScalarFunction::kAdd:
    case ScalarFunction::kSubtract:
      return x.linearity == y.linearity ? x.linearity : Linearity::kOther;
    case ScalarFunction::kMultiply:
      if (x.linearity == Linearity::kConstant) return y.linearity;
      return y.linearity == Linearity::kConstant ? x.linearity
                                                 : Linearity::kOther;
    case ScalarFunction::kDivide:
      return y.linearity == Linearity::kConstant && y.number != 0
                 ? x.linearity
                 : Linearity::kOther;
    default:
      return Linearity::kOther;
  }
}

}  // namespace

bool IsLinear(const MapExpression& expression,
              absl::Span<const DType> operand_dtypes) {
  absl::InlinedVector<Term, 16> terms;
  for (DType dtype : operand_dtypes) {
    terms.push_back({Linearity::kLinear, dtype, 0});
  }
  for (const MapStep& step : expression.steps) {
    if (step.function == ScalarFunction::kLiteral) {
      terms.push_back(Constant(step.number(), step.dtype));
      continue;
    }
    Term x, y;
    bool constant = IsLinearFunction(step.function);
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      const Term& argument = terms[step.arguments[i]];
      if (i < 2) (i == 0 ? x : y) = argument;
      constant = constant && argument.linearity == Linearity::kConstant;
    }
    if (constant && step.function == ScalarFunction::kCast) {
      terms.push_back(Constant(x.number, step.dtype));
    } else if (constant) {
      terms.push_back(Constant(
          EvaluateScalar(step.function, x.number, y.number), step.dtype));
    } else {
      terms.push_back({LinearityOf(step, x, y), step.dtype, 0});
    }
  }
  return terms.back().linearity == Linearity::kLinear;
}

bool IsLinear(const Instruction& instruction,
              absl::Span<const DType> operand_dtypes) {
  switch (instruction.opcode) {
    case Opcode::kMap:
      return IsLinear(ExpressionOf(instruction), operand_dtypes);
    case Opcode::kReduce:
      return ReductionOf(instruction) == ReduceKind::kSum &&
             IsLinear(ExpressionOf(instruction), operand_dtypes);
    case Opcode::kReshape:
    case Opcode::kSlice:
    case Opcode::kConcat:
    case Opcode::kTakeRows:
    case Opcode::kFoldWindows:
      // Windows are linear too, but repeat elements: a sum is never worth
      // delaying past them.
      return true;
    case Opcode::kPlaceRows:
    case Opcode::kPad:
    case Opcode::kMask:
      return FillOf(instruction) == 0;
    default:
      return false;
  }
}

}  // namespace mtf
