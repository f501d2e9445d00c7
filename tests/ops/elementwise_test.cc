// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include <limits>
#include <type_traits>

#include "mtf/print_graph.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const Dimension a{"a", 2}, b{"b", 3}, c{"c", 2};

TEST(Broadcast, LongerListIfTheOtherIsASubsequence) {
  Graph graph;
  const Tensor abc = Ones(graph, kFloat32, {a, b, c});
  EXPECT_EQ((Ones(graph, kFloat32, {a, c}) + abc).shape(), Shape({a, b, c}));
  EXPECT_EQ((abc + Ones(graph, kFloat32, {})).shape(), Shape({a, b, c}));
  EXPECT_EQ((Ones(graph, kFloat32, {b}) + abc).shape(), Shape({a, b, c}));
}

TEST(Broadcast, OtherwiseFirstThenNewDimensions) {
  Graph graph;
  const auto ones = [&](Shape shape) { return Ones(graph, kFloat32, shape); };
  EXPECT_EQ((ones({c, a}) + ones({a, b, c})).shape(), Shape({c, a, b}));
  EXPECT_EQ((ones({b}) + ones({a})).shape(), Shape({b, a}));
  EXPECT_EQ((ones({a, b}) + ones({b, a})).shape(), Shape({a, b}));
  EXPECT_EQ(Select(Ones(graph, kBool, {c}), ones({b}), ones({a})).shape(),
            Shape({c, b, a}));
}

TEST(Broadcast, MatchesElementsByName) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3, 4, 5, 6}, kFloat32, {a, b});
  const Tensor y = Constant(graph, {10, 20, 30, 40, 50, 60}, kFloat32, {b, a});
  EXPECT_THAT(DataOf(x + y), ElementsAre(11, 32, 53, 24, 45, 66));
  const Tensor z = Constant(graph, {100, 200}, kFloat32, {c});
  const OracleTensor sum = Fetch(x + z);
  EXPECT_EQ(sum.shape, Shape({a, b, c}));
  EXPECT_EQ(At(sum, {{"a", 1}, {"b", 2}, {"c", 1}}), 206);
}

TEST(Operators, OfTensorsAndNumbers) {
  Graph graph;
  const Tensor x = Constant(graph, {2, 4}, kFloat32, {a});
  EXPECT_THAT(DataOf(x + 1), ElementsAre(3, 5));
  EXPECT_THAT(DataOf(1.0 + x), ElementsAre(3, 5));
  EXPECT_THAT(DataOf(x - 1.5), ElementsAre(0.5, 2.5));
  EXPECT_THAT(DataOf(1.0 - x), ElementsAre(-1, -3));
  EXPECT_THAT(DataOf(x * 3), ElementsAre(6, 12));
  EXPECT_THAT(DataOf(1 / x), ElementsAre(0.5, 0.25));
  EXPECT_THAT(DataOf(-x), ElementsAre(-2, -4));
  EXPECT_THAT(DataOf(Maximum(x, 3)), ElementsAre(3, 4));
  EXPECT_THAT(DataOf(Pow(2, x)), ElementsAre(4, 16));
  EXPECT_THAT(DataOf(Less(x, 3)), ElementsAre(1, 0));
  EXPECT_THAT(DataOf(Select(Less(x, 3), 1, x)), ElementsAre(1, 4));
  EXPECT_THAT(DataOf(Select(Less(x, 3), 1, 0)), ElementsAre(1, 0));
}

TEST(Operators, ComparisonsAreElementwise) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kFloat32, {b});
  const Tensor y = Constant(graph, {3, 2, 1}, kFloat32, {b});
  EXPECT_THAT(DataOf(Select(x == y, 10.0, x)), ElementsAre(1, 10, 3));
  EXPECT_THAT(DataOf(Select(x != y, 10.0, x)), ElementsAre(10, 2, 10));
  EXPECT_THAT(DataOf(x == x), ElementsAre(1, 1, 1));
  EXPECT_THAT(DataOf(x < y), ElementsAre(1, 0, 0));
  EXPECT_THAT(DataOf(x <= y), ElementsAre(1, 1, 0));
  EXPECT_THAT(DataOf(x > y), ElementsAre(0, 0, 1));
  EXPECT_THAT(DataOf(x >= y), ElementsAre(0, 1, 1));
  EXPECT_EQ((x == y).dtype(), kBool);
}

TEST(Operators, ComparisonsWithNumbersOnEitherSide) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kInt32, {b});
  EXPECT_THAT(DataOf(x == 2), ElementsAre(0, 1, 0));
  EXPECT_THAT(DataOf(2 == x), ElementsAre(0, 1, 0));
  EXPECT_THAT(DataOf(x != 2.0), ElementsAre(1, 0, 1));
  EXPECT_THAT(DataOf(2.0 != x), ElementsAre(1, 0, 1));
  EXPECT_THAT(DataOf(x < 2), ElementsAre(1, 0, 0));
  EXPECT_THAT(DataOf(2 < x), ElementsAre(0, 0, 1));
  EXPECT_THAT(DataOf(x <= 2), ElementsAre(1, 1, 0));
  EXPECT_THAT(DataOf(2 <= x), ElementsAre(0, 1, 1));
  EXPECT_THAT(DataOf(x > 2), ElementsAre(0, 0, 1));
  EXPECT_THAT(DataOf(2 > x), ElementsAre(1, 0, 0));
  EXPECT_THAT(DataOf(x >= 2), ElementsAre(0, 1, 1));
  EXPECT_THAT(DataOf(2 >= x), ElementsAre(1, 1, 0));
}

TEST(Operators, AssignTheHandle) {
  Graph graph;
  const Tensor x = Constant(graph, {2, 4}, kFloat32, {a});
  Tensor y = x;
  y += 1;
  EXPECT_THAT(DataOf(y), ElementsAre(3, 5));
  y -= x;
  EXPECT_THAT(DataOf(y), ElementsAre(1, 1));
  y += x;
  y *= 6.0;
  EXPECT_THAT(DataOf(y), ElementsAre(18, 30));
  const int line = __LINE__ + 1;
  y /= x;
  EXPECT_THAT(DataOf(y), ElementsAre(9, 7.5));
  EXPECT_EQ(y.operation()->call_site().line, line);
  EXPECT_THAT(DataOf(x), ElementsAre(2, 4));
}

// Tensors are handles, but no operator compares them as such.
static_assert(!std::is_constructible_v<bool, decltype(Tensor() == Tensor())>);

TEST(Operators, SameTensorComparesHandles) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {a}), y = Ones(graph, kFloat32, {a});
  const Tensor copy = x;
  EXPECT_TRUE(SameTensor(x, copy));
  EXPECT_FALSE(SameTensor(x, y));
  EXPECT_FALSE(SameTensor(x, Tensor()));
  EXPECT_TRUE(SameTensor(Tensor(), Tensor()));
}

TEST(Operators, NumbersBecomeLiteralsInTheMap) {
  Graph graph;
  const Tensor x = Input(graph, "x", kBFloat16, {a});
  2.5 - x;
  EXPECT_EQ(PrintGraph(graph),
            "%x : bf16[a:2] = input\n"
            "%sub : bf16[a:2] = sub(%x) [literal.bf16(2.5); sub($1, $0)]\n");
}

TEST(Operators, GradientThroughNumbers) {
  ExpectSecondGradients({Numbers({a, b}, 1, 0.5, 1.5)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          return 2 / xs[0] - Pow(xs[0], 3) + Pow(2, xs[0]) -
                                 Maximum(1.1, xs[0]) * xs[0] +
                                 Select(Less(xs[0], 1.2), 1.0, xs[0]);
                        });
}

TEST(Operators, TheUsersLineIsKept) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {a});
  const int line = __LINE__ + 1;
  const Tensor y = x + 1.0;
  const Tensor z = 2.0 * y;
  const Tensor w = Exp(z);
  EXPECT_EQ(y.operation()->call_site(),
            (CallSite{"elementwise_test.cc", line}));
  EXPECT_EQ(z.operation()->call_site().line, line + 1);
  EXPECT_EQ(w.operation()->call_site().line, line + 2);
}

TEST(Select, IgnoresTheSideNotSelected) {
  Graph graph;
  const Tensor x = Constant(graph, {0, 4}, kFloat32, {a});
  const Tensor nan = Constant(graph, {kNaN, kNaN}, kFloat32, {a});
  const Tensor pick = Less(x, 1);
  EXPECT_THAT(DataOf(Select(pick, x, nan))[0], 0);
  EXPECT_THAT(DataOf(Select(pick, nan, x))[1], 4);
  // Where the slope of the other side is infinite, its operand is selected too.
  const Tensor safe = Select(pick, 1.0, Log(Select(pick, 1.0, x)));
  EXPECT_THAT(DataOf(Gradients(safe, {x})[0]), ElementsAre(0, 0.25));
  const Tensor y = Select(pick, x, nan);
  EXPECT_THAT(DataOf(Gradients(y, {x})[0]), ElementsAre(1, 0));
  EXPECT_THAT(DataOf(Gradients(y, {nan})[0]), ElementsAre(0, 1));
}

TEST(Select, GradientsOfBroadcastOperandsAreSummed) {
  for (const auto& [first, second] : std::vector<std::pair<Shape, Shape>>{
           {{a, b}, {b}}, {{}, {c}}, {{b, a}, {a, b}}}) {
    ExpectSecondGradients(
        {Numbers(first, 1), Numbers(second, 2)},
        [](Graph& graph, const std::vector<Tensor>& xs) {
          const Tensor condition = Constant(graph, {1, 0, 1}, kBool, {b});
          return Select(condition, xs[0], xs[1]);
        });
  }
}

TEST(Ties, MaximumAndMinimumDivideTheGradient) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kFloat32, {b});
  const Tensor y = Constant(graph, {2, 2, 2}, kFloat32, {b});
  const auto max = Gradients(Maximum(x, y), {x, y});
  EXPECT_THAT(DataOf(max[0]), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(DataOf(max[1]), ElementsAre(1, 0.5, 0));
  const auto min = Gradients(Minimum(x, y), {x, y});
  EXPECT_THAT(DataOf(min[0]), ElementsAre(1, 0.5, 0));
  EXPECT_THAT(DataOf(min[1]), ElementsAre(0, 0.5, 1));
}

TEST(Ties, SlopesAtZeroAreThoseOfNegativeNumbers) {
  Graph graph;
  const Tensor zero = Zeros(graph, kFloat32, {});
  EXPECT_THAT(DataOf(Gradients(Relu(zero), {zero})[0]), ElementsAre(0));
  EXPECT_THAT(DataOf(Gradients(LeakyRelu(zero), {zero})[0]), ElementsAre(0.2));
  EXPECT_THAT(DataOf(Gradients(Abs(zero), {zero})[0]), ElementsAre(0));
}

TEST(PowGradient, AtBaseZeroAndBelowIsFinite) {
  Graph graph;
  const Tensor x = Constant(graph, {0, 0, 0, -2, -2}, kFloat32, {{"i", 5}});
  const Tensor y = Constant(graph, {0, 1, 2, 2, 3}, kFloat32, {{"i", 5}});
  EXPECT_THAT(DataOf(Pow(x, y)), ElementsAre(1, 0, 0, 4, -8));
  const auto g = Gradients(Pow(x, y), {x, y});
  EXPECT_THAT(DataOf(g[0]), ElementsAre(0, 1, 0, -4, 12));
  EXPECT_THAT(DataOf(g[1]), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(DataOf(Gradients(Pow(x, 2), {x})[0]),
              ElementsAre(0, 0, 0, -4, -4));
  EXPECT_THAT(DataOf(Gradients(Pow(x, 0), {x})[0]), ElementsAre(0, 0, 0, 0, 0));
}

TEST(Extremes, ActivationsStayFinite) {
  Graph graph;
  const Tensor x = Constant(graph, {-1000, 1000}, kFloat32, {a});
  EXPECT_THAT(DataOf(Sigmoid(x)), ElementsAre(0, 1));
  EXPECT_THAT(DataOf(Swish(x)), ElementsAre(0, 1000));
  EXPECT_THAT(DataOf(Softplus(x)), ElementsAre(0, 1000));
  EXPECT_THAT(DataOf(Gelu(x)), ElementsAre(0, 1000));
  EXPECT_THAT(DataOf(Elu(x)), ElementsAre(-1, 1000));
  EXPECT_THAT(DataOf(Gradients(Swish(x), {x})[0]), ElementsAre(0, 1));
  EXPECT_THAT(DataOf(Gradients(Softplus(x), {x})[0]), ElementsAre(0, 1));
}

TEST(Extremes, GradientsOfGeluStayFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  for (double size : {40.0, 1000.0, 1e19, 3e38, inf}) {
    SCOPED_TRACE(size);
    Graph graph;
    const Tensor x = Constant(graph, {-size, size}, kFloat32, {a});
    EXPECT_THAT(DataOf(GeluDerivative(x)), ElementsAre(0, 1));
    const Tensor gradient = Gradients(Gelu(x), {x})[0];
    EXPECT_THAT(DataOf(gradient), ElementsAre(0, 1));
    EXPECT_THAT(DataOf(Gradients(gradient, {x})[0]), ElementsAre(0, 0));
  }
}

// In 16-bit floats each operation rounds, so the gradient must have few.
TEST(GeluGradient, IsAProductWithOneFunction) {
  Graph graph;
  const Tensor x = Input(graph, "x", kBFloat16, {a});
  const Tensor slope = Input(graph, "slope", kBFloat16, {a});
  const Tensor gradient = Gradients(Gelu(x), {x}, slope)[0];
  EXPECT_EQ(gradient.operation()->kind(), "mul");
  const Tensor factor = gradient.operation()->inputs()[1];
  EXPECT_EQ(factor.operation()->kind(), "gelu_derivative");
  EXPECT_TRUE(SameTensor(factor.operation()->inputs()[0], x));
}

TEST(Integers, DivisionByZeroIsDefined) {
  Graph graph;
  const Tensor x = Constant(graph, {7, -7}, kInt32, {a});
  EXPECT_THAT(DataOf(FloorDivide(x, 0)), ElementsAre(0, 0));
  EXPECT_THAT(DataOf(Mod(x, 0)), ElementsAre(7, -7));
}

TEST(Integers, ArithmeticWrapsAround) {
  Graph graph;
  const Tensor x = Constant(graph, {2147483647, -2147483648.0}, kInt32, {a});
  EXPECT_THAT(DataOf(x + 1), ElementsAre(-2147483648.0, -2147483647));
  EXPECT_THAT(DataOf(-x), ElementsAre(-2147483647, -2147483648.0));
}

TEST(Cast, RoundsTruncatesAndTests) {
  Graph graph;
  const Tensor x =
      Constant(graph, {-1.75, 0, 0.999, 2.5, 257}, kFloat32, {{"i", 5}});
  EXPECT_THAT(DataOf(Cast(x, kInt32)), ElementsAre(-1, 0, 0, 2, 257));
  EXPECT_THAT(DataOf(Cast(x, kBool)), ElementsAre(1, 0, 1, 1, 1));
  // 257 has nine bits: a tie in bf16, to even. 0.999 has no exact form.
  EXPECT_THAT(DataOf(Cast(x, kBFloat16)), ElementsAre(-1.75, 0, 1, 2.5, 256));
  EXPECT_EQ(DataOf(Cast(x, kFloat16))[4], 257);
  EXPECT_EQ(Cast(x, kBFloat16).dtype(), kBFloat16);
  EXPECT_TRUE(SameTensor(Cast(x, kFloat32), x)) << "nothing to do";
}

TEST(Cast, SaturatesBeyondTheRangeOfAnInteger) {
  Graph graph;
  const Tensor x = Constant(graph, {1e30, -1e30, kNaN}, kFloat32, {b});
  EXPECT_THAT(DataOf(Cast(x, kInt32)),
              ElementsAre(2147483647, -2147483648.0, 0));
}

TEST(Cast, IntegersWrapAround) {
  Graph graph;
  const Tensor x = Constant(graph, {4294967297, -2147483649}, kInt64, {a});
  EXPECT_THAT(DataOf(Cast(x, kInt32)), ElementsAre(1, 2147483647));
}

TEST(Cast, GradientIsCastBackAmongFloatsOnly) {
  Graph graph;
  const Tensor x = Constant(graph, {1.5, 2}, kFloat32, {a});
  const Tensor y = Cast(x, kBFloat16) * 3;
  const Tensor g = Gradients(y, {x})[0];
  EXPECT_EQ(g.dtype(), kFloat32);
  EXPECT_THAT(DataOf(g), ElementsAre(3, 3));
  const Tensor through_int = Cast(Cast(x, kInt32), kFloat32) * x;
  EXPECT_THAT(DataOf(Gradients(through_int, {x})[0]), ElementsAre(1, 2));
}

TEST(Like, HasShapeAndDType) {
  Graph graph;
  const Tensor x = Like(Zeros(graph, kInt64, {a, b}), 7);
  EXPECT_EQ(x.shape(), Shape({a, b}));
  EXPECT_EQ(x.dtype(), kInt64);
  EXPECT_THAT(DataOf(x), ::testing::Each(7));
}

TEST(AddN, AddsAllAndHasGradients) {
  ExpectSecondGradients(
      {Numbers({a, b}, 1), Numbers({b}, 2), Numbers({c}, 3)},
      [](Graph&, const std::vector<Tensor>& xs) { return AddN(xs); });
  Graph graph;
  const Tensor x = Constant(graph, {1, 2}, kFloat32, {a});
  EXPECT_TRUE(SameTensor(AddN({x}), x));
  EXPECT_THAT(DataOf(AddN({x, x, x})), ElementsAre(3, 6));
  EXPECT_FALSE(AddN({}).valid());
}

TEST(ElementwiseErrors, OneNameOfTwoSizes) {
  ExpectError(
      [](Graph& g) {
        Input(g, "x", kFloat32, {a}) + Input(g, "y", kFloat32, {{"a", 4}});
      },
      {"dimension \"a\" is 2 in \"x\" but 4 in \"y\" (add, ",
       "\n  inputs   x f32[a=2]\n           y f32[a=4]", "Rename()"});
}

TEST(ElementwiseErrors, TwoDTypes) {
  ExpectError(
      [](Graph& g) {
        Input(g, "x", kFloat32, {a}) * Input(g, "y", kInt32, {a});
      },
      {"\"x\" is f32 but \"y\" is i32 (mul, ", "Cast()"});
}

TEST(ElementwiseErrors, NumberThatTheDTypeCannotHold) {
  ExpectError([](Graph& g) { Ones(g, kInt32, {a}) * 0.5; },
              {"the number 0.5 is not representable in dtype i32 (mul, "});
  ExpectError([](Graph& g) { Ones(g, kInt32, {a}) + 3e9; },
              {"the number 3e+09 is not representable in dtype i32"});
  ExpectError([](Graph& g) { LogicalOr(Ones(g, kBool, {a}), 2); },
              {"the number 2 is not representable in dtype bool"});
}

TEST(ElementwiseErrors, ConditionThatIsNotBool) {
  ExpectError([](Graph& g) { Select(Input(g, "mask", kInt32, {a}), 1, 0); },
              {"the condition \"mask\" is i32, not bool (select, "});
}

TEST(ElementwiseErrors, EmptyAndForeignTensors) {
  ExpectError([](Graph& g) { Ones(g, kFloat32, {a}) + Tensor(); },
              {"input 1 is an empty Tensor (add, "});
  Graph other;
  const Tensor stranger = Ones(other, kFloat32, {a});
  ExpectError([&](Graph& g) { Ones(g, kFloat32, {a}) - stranger; },
              {"input \"constant\" belongs to another graph (sub, "});
  EXPECT_FALSE((Tensor() + Tensor()).valid());
  EXPECT_FALSE((Tensor() * 2.0).valid());
  EXPECT_FALSE(Exp(Tensor()).valid());
  EXPECT_FALSE(Maximum(1, 2).valid());
  EXPECT_FALSE(Cast(Tensor(), kInt32).valid());
  EXPECT_FALSE(Like(Tensor(), 1).valid());
  EXPECT_FALSE(AddN({Tensor(), Tensor()}).valid());
}

TEST(ElementwiseErrors, ReturnsTheIntendedShape) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {a}), y = Ones(graph, kInt32, {b});
  const Tensor bad = x + y;
  EXPECT_EQ(bad.shape(), Shape({a, b}));
  EXPECT_EQ(Less(bad, kInfinity).dtype(), kBool);
  EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr("(add, ")));
}

}  // namespace
}  // namespace mtf
