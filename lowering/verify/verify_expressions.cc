// SPDX-License-Identifier: Apache-2.0
#include "lowering/verify/verify_expressions.h"

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf::internal {
namespace {

absl::Status BadStep(const MapStep& step, absl::string_view what) {
  return absl::InternalError(
      absl::StrCat("the step ", InfoOf(step.function).text, " ", what));
}

// Checks step `index` of `expression`.
absl::Status VerifyStep(const Program& program, const Instruction& instruction,
                        const MapExpression& expression, const Shape& space,
                        size_t index) {
  const MapStep& step = expression.steps[index];
  const ScalarFunctionInfo& info = InfoOf(step.function);
  if (static_cast<int>(step.arguments.size()) != info.arity) {
    return BadStep(step, "has the wrong number of arguments");
  }
  const int known = expression.num_operands + static_cast<int>(index);
  for (int argument : step.arguments) {
    if (argument < 0 || argument >= known) {
      return BadStep(step, "takes the result of a later step");
    }
  }
  const auto dtype = [&](size_t i) {
    const int argument = step.arguments[i];
    return argument < expression.num_operands
               ? program.values[instruction.operands[argument]].dtype
               : expression.steps[argument - expression.num_operands].dtype;
  };
  if (step.function == ScalarFunction::kIota &&
      !space.Contains(step.dimension)) {
    return BadDimension(step.dimension,
                        "of an iota is not in the iteration space");
  }
  if (step.arguments.empty() || step.function == ScalarFunction::kCast) {
    return absl::OkStatus();
  }
  const bool select = step.function == ScalarFunction::kSelect;
  if (select && dtype(0) != kBool)
    return BadStep(step, "needs a bool as its condition");
  const DType operands = dtype(select ? 1 : 0);
  for (size_t i = select ? 2 : 1; i < step.arguments.size(); ++i) {
    if (dtype(i) != operands) return BadStep(step, "mixes dtypes");
  }
  if (step.dtype != (info.is_comparison ? kBool : operands)) {
    return BadStep(step, "has the wrong dtype");
  }
  const bool fits =
      info.domain == FunctionDomain::kAny ||
      step.function == ScalarFunction::kIdentity ||
      (info.domain == FunctionDomain::kFloat && IsFloat(operands)) ||
      (info.domain == FunctionDomain::kNumber && operands != kBool) ||
      (info.domain == FunctionDomain::kLogical && operands == kBool);
  return fits ? absl::OkStatus() : BadStep(step, "does not take this dtype");
}

}  // namespace

absl::Status Bad(absl::string_view what) { return absl::InternalError(what); }

absl::Status BadDimension(absl::string_view name, absl::string_view what) {
  return absl::InternalError(absl::StrCat("dimension \"", name, "\" ", what));
}

absl::Status VerifyWithin(const Shape& shape, const Shape& space) {
  for (const Dimension& dim : shape) {
    const int at = space.Find(dim.name);
    if (at < 0) return BadDimension(dim.name, "is not in the iteration space");
    if (space[at].size != dim.size) {
      return BadDimension(dim.name, "has two sizes");
    }
  }
  return absl::OkStatus();
}

absl::Status VerifyExpression(const Program& program,
                              const Instruction& instruction,
                              const MapExpression& expression,
                              const Shape& space) {
  if (expression.num_operands !=
          static_cast<int>(instruction.operands.size()) ||
      expression.steps.empty() ||
      expression.result_dtype() !=
          program.values[instruction.results[0]].dtype) {
    return absl::InternalError(
        "the expression does not fit operands and result");
  }
  for (int operand : instruction.operands) {
    MTF_RETURN_IF_ERROR(VerifyWithin(program.values[operand].shape, space));
  }
  for (size_t i = 0; i < expression.steps.size(); ++i) {
    MTF_RETURN_IF_ERROR(VerifyStep(program, instruction, expression, space, i));
  }
  return absl::OkStatus();
}

}  // namespace mtf::internal
