// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/linearity.h"

#include <vector>

#include "gtest/gtest.h"

namespace mtf {
namespace {

using F = ScalarFunction;

MapStep Literal(double number, DType dtype) {
  return {F::kLiteral, dtype, {}, number, ""};
}

// Whether `function` of one operand of `dtype` and the last of `constants`, in
// this order, is linear.
bool IsLinearWith(F function, DType dtype, std::vector<MapStep> constants) {
  const int last = static_cast<int>(constants.size());
  constants.push_back({function, dtype, {0, last}, 0, ""});
  return IsLinear({1, std::move(constants)}, {dtype});
}

TEST(IsLinear, AFiniteFactorIs) {
  EXPECT_TRUE(IsLinearWith(F::kMultiply, kFloat16, {Literal(60000, kFloat16)}));
  EXPECT_TRUE(IsLinearWith(F::kDivide, kFloat32, {Literal(1e-30, kFloat32)}));
  EXPECT_TRUE(IsLinearWith(F::kMultiply, kInt32, {Literal(-3, kInt32)}));
  EXPECT_TRUE(IsLinearWith(F::kMultiply, kFloat32, {Literal(0, kFloat32)}));
}

// What counts is the number of the dtype, not the double it was written as.
TEST(IsLinear, AFactorThatIsInfiniteInItsDTypeIsNot) {
  EXPECT_FALSE(
      IsLinearWith(F::kMultiply, kFloat16, {Literal(70000, kFloat16)}));
  EXPECT_FALSE(IsLinearWith(F::kMultiply, kFloat32, {Literal(1e39, kFloat32)}));
  EXPECT_FALSE(
      IsLinearWith(F::kMultiply, kBFloat16, {Literal(3.4e38, kBFloat16)}));
}

TEST(IsLinear, ADivisorThatIsZeroInItsDTypeIsNot) {
  EXPECT_FALSE(IsLinearWith(F::kDivide, kFloat16, {Literal(1e-9, kFloat16)}));
  EXPECT_FALSE(IsLinearWith(F::kDivide, kFloat32, {Literal(1e-50, kFloat32)}));
  EXPECT_TRUE(IsLinearWith(F::kDivide, kBFloat16, {Literal(1e-9, kBFloat16)}));
}

TEST(IsLinear, AFactorComputedFromConstantsIsRounded) {
  const MapStep half = Literal(40000, kFloat16);
  EXPECT_FALSE(IsLinearWith(F::kMultiply, kFloat16,
                            {half, {F::kAdd, kFloat16, {1, 1}, 0, ""}}));
  EXPECT_TRUE(IsLinearWith(F::kMultiply, kFloat16,
                           {half, {F::kNegate, kFloat16, {1}, 0, ""}}));
  EXPECT_FALSE(
      IsLinearWith(F::kMultiply, kFloat16,
                   {Literal(1e5, kFloat32), {F::kCast, kFloat16, {1}, 0, ""}}));
  EXPECT_FALSE(IsLinearWith(
      F::kDivide, kFloat32,
      {Literal(1, kFloat32), {F::kSubtract, kFloat32, {1, 1}, 0, ""}}));
  // Constants of another number than the operand's may be cast to it.
  EXPECT_TRUE(
      IsLinearWith(F::kMultiply, kFloat32,
                   {Literal(3, kInt32), {F::kCast, kFloat32, {1}, 0, ""}}));
}

TEST(IsLinear, ASumWithAConstantIsNot) {
  EXPECT_FALSE(IsLinearWith(F::kAdd, kFloat32, {Literal(1, kFloat32)}));
}

}  // namespace
}  // namespace mtf
