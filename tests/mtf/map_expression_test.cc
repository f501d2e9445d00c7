// SPDX-License-Identifier: Apache-2.0
#include "mtf/map_expression.h"

#include <limits>

#include "tests/matchers.h"

namespace mtf {
namespace {

using F = ScalarFunction;

TEST(MapExpression, SingleFunctionPrintsAsItsName) {
  EXPECT_EQ(MapExpression::Single(F::kRelu, kFloat32, 1).ToString(), "relu");
  EXPECT_EQ(MapExpression::Single(F::kAdd, kFloat32, 2).ToString(), "add");
  EXPECT_EQ(MapExpression::Single(F::kSelect, kFloat32, 3).ToString(),
            "select");
}

TEST(MapExpression, OtherExpressionsPrintInBrackets) {
  const MapExpression gelu = {
      2,
      {{F::kAdd, kFloat32, {0, 1}, 0, ""}, {F::kGelu, kFloat32, {2}, 0, ""}}};
  EXPECT_EQ(gelu.ToString(), "[add($0, $1); gelu($2)]");
  const MapExpression swapped = {2, {{F::kSubtract, kFloat32, {1, 0}, 0, ""}}};
  EXPECT_EQ(swapped.ToString(), "[sub($1, $0)]");
  const MapExpression one_of_two = {2, {{F::kExp, kFloat32, {0}, 0, ""}}};
  EXPECT_EQ(one_of_two.ToString(), "[exp($0)]");
}

TEST(MapExpression, CastsLiteralsAndIotasPrintTheirDType) {
  EXPECT_EQ(MapExpression::Cast(kBFloat16).ToString(), "[cast.bf16($0)]");
  EXPECT_EQ(MapExpression::Literal(0.5, kFloat32).ToString(),
            "[literal.f32(0.5)]");
  EXPECT_EQ(MapExpression::Iota("length", kInt32).ToString(),
            "[iota.i32(length)]");
  EXPECT_EQ(MapExpression::Cast(kBFloat16).result_dtype(), kBFloat16);
}

TEST(MapExpression, LiteralsReadBackAsTheSameDouble) {
  for (const double x : {0.1, 1.0 / 3, -1e300, 5e-324, 1e-310, 123456789.25,
                         -0.0, std::numeric_limits<double>::infinity()}) {
    const std::string text = MapExpression::Literal(x, kFloat32).ToString();
    const std::string number = text.substr(std::string("[literal.f32(").size());
    EXPECT_EQ(std::strtod(number.c_str(), nullptr), x) << text;
  }
}

// The text keeps the literal as written; computation uses the rounded number.
TEST(MapExpression, LiteralIsRoundedToItsDType) {
  const auto number = [](double value, DType dtype) {
    return MapExpression::Literal(value, dtype).steps[0].number();
  };
  EXPECT_EQ(number(1e-8, kFloat16), 0);
  EXPECT_EQ(number(70000, kFloat16), std::numeric_limits<double>::infinity());
  EXPECT_EQ(number(0.1, kFloat32), 0.1f);
  EXPECT_EQ(number(16777217, kInt32), 16777217);
  EXPECT_EQ(MapExpression::Literal(1e-8, kFloat16).ToString(),
            "[literal.f16(1e-08)]");
}

TEST(ScalarFunctions, EveryNameReadsBack) {
  for (int i = 0; i <= static_cast<int>(F::kIota); ++i) {
    const ScalarFunctionInfo& info = InfoOf(static_cast<F>(i));
    EXPECT_EQ(info.function, static_cast<F>(i)) << info.text;
    const auto parsed = ParseScalarFunction(info.text);
    ASSERT_OK(parsed);
    EXPECT_EQ(*parsed, info.function) << info.text;
  }
}

TEST(ScalarFunctions, MisspeltNameGetsTheNearest) {
  EXPECT_THAT(
      ParseScalarFunction("sigmiod"),
      testing::StatusIs(absl::StatusCode::kInvalidArgument,
                        "unknown scalar function \"sigmiod\"; did you mean "
                        "\"sigmoid\"?"));
  EXPECT_THAT(ParseScalarFunction("frobnicate"),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                "unknown scalar function \"frobnicate\""));
}

TEST(ScalarFunctions, EvaluateSelectAndNot) {
  EXPECT_EQ(EvaluateScalar(F::kSelect, 1, 2, 3), 2);
  EXPECT_EQ(EvaluateScalar(F::kSelect, 0, 2, 3), 3);
  EXPECT_EQ(EvaluateScalar(F::kLogicalNot, 0), 1);
  EXPECT_EQ(EvaluateScalar(F::kLogicalAnd, 1, 0), 0);
}

}  // namespace
}  // namespace mtf
