// SPDX-License-Identifier: Apache-2.0
#include "mtf/scalar_functions.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mtf/check.h"
#include "mtf/status.h"

namespace mtf {
namespace {

using F = ScalarFunction;
using D = FunctionDomain;

const std::vector<ScalarFunctionInfo>& Table() {
  static const auto& table = *new std::vector<ScalarFunctionInfo>{
#define ROW(Name, text, ...) {F::k##Name, text, 1, D::kFloat, false},
      MTF_UNARY_FLOAT_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, ...) {F::k##Name, text, 1, D::kNumber, false},
          MTF_UNARY_NUMBER_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, ...) {F::k##Name, text, 2, D::kNumber, false},
              MTF_BINARY_NUMBER_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, ...) {F::k##Name, text, 2, D::kFloat, false},
                  MTF_BINARY_FLOAT_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, ...) {F::k##Name, text, 2, D::kNumber, true},
                      MTF_COMPARISON_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, ...) {F::k##Name, text, 2, D::kLogical, false},
                          MTF_LOGICAL_FUNCTIONS(ROW)
#undef ROW
                              {F::kLogicalNot, "not", 1, D::kLogical, false},
      {F::kSelect, "select", 3, D::kAny, false},
      {F::kCast, "cast", 1, D::kAny, false},
      {F::kLiteral, "literal", 0, D::kAny, false},
      {F::kIota, "iota", 0, D::kNumber, false},
  };
  return table;
}

}  // namespace

const ScalarFunctionInfo& InfoOf(ScalarFunction function) {
  // The table is in the order of the enum.
  return Table()[static_cast<int>(function)];
}

absl::StatusOr<ScalarFunction> ParseScalarFunction(absl::string_view text) {
  std::vector<std::string> names;
  for (const ScalarFunctionInfo& info : Table()) {
    if (info.text == text) return info.function;
    names.emplace_back(info.text);
  }
  const std::string nearest = NearestName(text, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown scalar function \"", text, "\"",
      nearest.empty() ? ""
                      : absl::StrCat("; did you mean \"", nearest, "\"?")));
}

double EvaluateScalar(ScalarFunction function, double x, double y, double z) {
  using namespace scalar;  // NOLINT: the rows name the primitives
  switch (function) {
#define ROW(Name, text, value, ...) \
  case F::k##Name:                  \
    return value;
    MTF_UNARY_FLOAT_FUNCTIONS(ROW)
    MTF_UNARY_NUMBER_FUNCTIONS(ROW)
    MTF_BINARY_NUMBER_FUNCTIONS(ROW)
    MTF_BINARY_FLOAT_FUNCTIONS(ROW)
    MTF_COMPARISON_FUNCTIONS(ROW)
    MTF_LOGICAL_FUNCTIONS(ROW)
#undef ROW
    case F::kLogicalNot:
      return x == 0;
    case F::kSelect:
      return x != 0 ? y : z;
    case F::kCast:
    case F::kLiteral:
    case F::kIota:
      break;
  }
  MTF_CHECK(false) << "no value for " << InfoOf(function).text;
  return 0;
}

}  // namespace mtf
