// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/codegen/kernel_text.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mtf::cuda {
namespace {

using F = ScalarFunction;

struct Row {
  absl::string_view name, value;
};

// The rows of the table as text, in the order of ScalarFunction.
const Row& RowOf(ScalarFunction function) {
  static constexpr Row kRows[] = {
#define ROW(Name, text, value, ...) {#Name, #value},
      MTF_UNARY_FLOAT_FUNCTIONS(ROW) MTF_UNARY_NUMBER_FUNCTIONS(ROW)
          MTF_BINARY_NUMBER_FUNCTIONS(ROW) MTF_BINARY_FLOAT_FUNCTIONS(ROW)
              MTF_COMPARISON_FUNCTIONS(ROW) MTF_LOGICAL_FUNCTIONS(ROW)
#undef ROW
  };
  return kRows[static_cast<int>(function)];
}

bool IsRow(ScalarFunction function) { return function < F::kLogicalNot; }

std::string FloatText(float number) {
  if (std::isnan(number)) return "kNaN";
  if (std::isinf(number)) return number > 0 ? "kInfinity" : "-kInfinity";
  std::string text = absl::StrFormat("%.9g", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

int64_t IntegerOf(double number, DType dtype) {
  const bool narrow = dtype == kInt32;
  const double end = narrow ? 0x1p31 : 0x1p63;
  if (number >= end) {
    return narrow ? std::numeric_limits<int32_t>::max()
                  : std::numeric_limits<int64_t>::max();
  }
  if (number < -end) return static_cast<int64_t>(-end);
  return std::isnan(number) ? 0 : static_cast<int64_t>(number);
}

std::string IntegerText(int64_t number) {
  // The least integer has no literal: its minus is an operator.
  if (number == std::numeric_limits<int64_t>::min()) return "kLeast";
  return absl::StrCat(number, "LL");
}

}  // namespace

absl::string_view StorageType(DType dtype) {
  switch (dtype) {
    case kFloat32:
      return "float";
    case kBFloat16:
      return "BF16";
    case kFloat16:
      return "F16";
    case kInt32:
      return "int";
    case kInt64:
      return "i64";
    case kBool:
      return "Bool";
  }
  return "";
}

absl::string_view RegisterType(DType dtype) {
  if (dtype == kBool) return "bool";
  return IsFloat(dtype) ? "F" : "I";
}

std::string LiteralText(double number, DType dtype) {
  if (dtype == kBool) return number != 0 ? "true" : "false";
  if (IsFloat(dtype)) {
    return absl::StrCat("F(", FloatText(static_cast<float>(number)), ")");
  }
  return absl::StrCat("I(", IntegerText(IntegerOf(number, dtype)), ")");
}

void RowText::Add(ScalarFunction function) {
  const int number = static_cast<int>(function);
  if (added_[number] || !IsRow(function)) return;
  added_[number] = true;
  const Row& row = RowOf(function);
  const bool binary = InfoOf(function).arity == 2;
  absl::StrAppend(&text_, "template <class T>\n__device__ inline auto Row",
                  row.name, "(T x", binary ? ", T y" : "", ") {\n  return ",
                  row.value, ";\n}\n");
}

StepText WriteSteps(
    const MapExpression& expression, absl::Span<const std::string> operands,
    absl::Span<const DType> dtypes, absl::string_view prefix,
    absl::string_view indent, RowText& rows,
    const std::function<std::string(const std::string&)>& iota) {
  std::vector<std::string> names(operands.begin(), operands.end());
  std::vector<DType> types(dtypes.begin(), dtypes.end());
  StepText text;
  for (size_t i = 0; i < expression.steps.size(); ++i) {
    const MapStep& step = expression.steps[i];
    // The last argument is never the condition of a select.
    const DType from =
        step.arguments.empty() ? step.dtype : types[step.arguments.back()];
    const FunctionDomain domain = InfoOf(step.function).domain;
    // Functions of numbers take bools as 0 and 1.
    const bool counts =
        from == kBool && step.function != F::kIdentity &&
        (domain == FunctionDomain::kFloat || domain == FunctionDomain::kNumber);
    const auto argument = [&](size_t j) {
      const std::string& name = names[step.arguments[j]];
      return counts ? absl::StrCat("Number(", name, ")") : name;
    };
    std::string value;
    // The type of the value before it is rounded to the dtype of the step.
    DType made = counts ? kFloat32 : from;
    if (step.function == F::kLiteral) {
      // The literal as rounded to its dtype.
      value = LiteralText(step.number(), step.dtype);
      made = step.dtype;
    } else if (step.function == F::kIota) {
      value = absl::StrCat("I(", iota(step.dimension), ")");
      made = kInt64;
    } else if (step.function == F::kCast) {
      value = argument(0);
    } else if (step.function == F::kLogicalNot) {
      value = absl::StrCat("!", argument(0));
    } else if (step.function == F::kSelect) {
      value = absl::StrCat("Select(", argument(0), ", ", argument(1), ", ",
                           argument(2), ")");
    } else {
      rows.Add(step.function);
      value = absl::StrCat("Row", RowOf(step.function).name, "(", argument(0));
      for (size_t j = 1; j < step.arguments.size(); ++j) {
        absl::StrAppend(&value, ", ", argument(j));
      }
      value += ")";
      if (InfoOf(step.function).is_comparison) made = kBool;
      // Functions of 16-bit floats give float32 before rounding.
      if (IsFloat(made) && step.function != F::kIdentity) made = kFloat32;
      // Functions of int32 give int64.
      if (IsInteger(made) && step.function != F::kIdentity) made = kInt64;
    }
    // Skips the rounding of values that the dtype already represents.
    if (made != step.dtype) {
      const bool holds = (step.dtype == kFloat32 && IsFloat(made)) ||
                         (step.dtype == kInt64 && IsInteger(made));
      if (!holds) {
        value =
            absl::StrCat("Rounded<", StorageType(step.dtype), ">(", value, ")");
      }
    }
    const std::string name = absl::StrCat(prefix, i);
    absl::StrAppend(&text.statements, indent, "const ",
                    RegisterType(step.dtype), " ", name, " = ", value, ";\n");
    names.push_back(name);
    types.push_back(step.dtype);
  }
  text.result = names.back();
  text.dtype = types.back();
  return text;
}

absl::string_view ReduceKindText(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return "Sum";
    case ReduceKind::kMax:
      return "Max";
    case ReduceKind::kMin:
      return "Min";
  }
  return "";
}

std::string TotalType(ReduceKind kind, DType dtype) {
  if (IsInteger(dtype)) return "i64";
  return kind == ReduceKind::kSum ? "double" : "float";
}

std::string IdentityText(ReduceKind kind, DType dtype) {
  if (kind == ReduceKind::kSum) return IsInteger(dtype) ? "0LL" : "0.0";
  const bool max = kind == ReduceKind::kMax;
  if (dtype == kBool) return max ? "0.0f" : "1.0f";
  if (IsFloat(dtype)) return max ? "-kInfinity" : "kInfinity";
  const double infinity = std::numeric_limits<double>::infinity();
  return IntegerText(IntegerOf(max ? -infinity : infinity, dtype));
}

}  // namespace mtf::cuda
