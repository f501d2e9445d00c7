// SPDX-License-Identifier: Apache-2.0
#include "mtf/map_expression.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/host_tensor.h"

namespace mtf {

std::string NumberText(double value) {
  std::string text = absl::StrFormat("%.9g", value);
  if (std::strtod(text.c_str(), nullptr) != value) {
    text = absl::StrFormat("%.17g", value);
  }
  return text;
}

double MapStep::number() const { return RoundToDType(literal, dtype); }

MapExpression MapExpression::Single(ScalarFunction function, DType dtype,
                                    int num_operands) {
  MapStep step{function, dtype, {}, 0, ""};
  for (int i = 0; i < num_operands; ++i) step.arguments.push_back(i);
  return {num_operands, {std::move(step)}};
}

MapExpression MapExpression::Cast(DType to) {
  return Single(ScalarFunction::kCast, to, 1);
}

MapExpression MapExpression::Literal(double value, DType dtype) {
  return {0, {{ScalarFunction::kLiteral, dtype, {}, value, ""}}};
}

MapExpression MapExpression::Iota(std::string dimension, DType dtype) {
  return {0, {{ScalarFunction::kIota, dtype, {}, 0, std::move(dimension)}}};
}

std::string MapExpression::ToString() const {
  if (steps.size() == 1 &&
      static_cast<int>(steps[0].arguments.size()) == num_operands &&
      num_operands > 0 && steps[0].function != ScalarFunction::kCast) {
    bool in_order = true;
    for (int i = 0; i < num_operands; ++i) {
      in_order = in_order && steps[0].arguments[i] == i;
    }
    if (in_order) return std::string(InfoOf(steps[0].function).text);
  }
  std::string text = "[";
  for (const MapStep& step : steps) {
    if (text.size() > 1) text += "; ";
    absl::StrAppend(&text, InfoOf(step.function).text);
    const bool typed = step.function == ScalarFunction::kCast ||
                       step.function == ScalarFunction::kLiteral ||
                       step.function == ScalarFunction::kIota;
    if (typed) absl::StrAppend(&text, ".", DTypeName(step.dtype));
    text += "(";
    if (step.function == ScalarFunction::kLiteral) {
      text += NumberText(step.literal);
    } else if (step.function == ScalarFunction::kIota) {
      text += step.dimension;
    } else {
      for (size_t i = 0; i < step.arguments.size(); ++i) {
        absl::StrAppend(&text, i > 0 ? ", " : "", "$", step.arguments[i]);
      }
    }
    text += ")";
  }
  return text + "]";
}

}  // namespace mtf
