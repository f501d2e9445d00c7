// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

#include <limits>

#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const Dimension a{"a", 2}, b{"b", 3};

Tensor Table(Graph& graph, DType dtype = kFloat32) {
  return Constant(graph, {1, 5, 3, 6, 2, 4}, dtype, {a, b});
}

TEST(Reduce, KeepsTheListedDimensions) {
  Graph graph;
  const Tensor x = Table(graph);
  EXPECT_THAT(DataOf(ReduceSum(x, {a})), ElementsAre(9, 12));
  EXPECT_THAT(DataOf(ReduceSum(x, {b})), ElementsAre(7, 7, 7));
  EXPECT_THAT(DataOf(ReduceSum(x, {})), ElementsAre(21));
  EXPECT_THAT(DataOf(ReduceMean(x, {a})), ElementsAre(3, 4));
  EXPECT_THAT(DataOf(ReduceMax(x, {a})), ElementsAre(5, 6));
  EXPECT_THAT(DataOf(ReduceMin(x, {b})), ElementsAre(1, 2, 3));
  const double log_sum = std::log(std::exp(1) + std::exp(5) + std::exp(3));
  EXPECT_NEAR(DataOf(ReduceLogSumExp(x, {a}))[0], log_sum, 1e-12);
}

TEST(Reduce, OverTheListedDimensions) {
  Graph graph;
  const Tensor x = Table(graph);
  EXPECT_THAT(DataOf(SumOver(x, {b})), ElementsAre(9, 12));
  EXPECT_EQ(SumOver(x, {b}).shape(), Shape({a}));
  EXPECT_THAT(DataOf(SumOver(x, {b, a})), ElementsAre(21));
  EXPECT_THAT(DataOf(SumOver(x, {})), ElementsAre(1, 5, 3, 6, 2, 4));
  EXPECT_THAT(DataOf(MeanOver(x, {b})), ElementsAre(3, 4));
  EXPECT_THAT(DataOf(MaxOver(x, {b})), ElementsAre(5, 6));
  EXPECT_THAT(DataOf(MinOver(x, {a})), ElementsAre(1, 2, 3));
  const double log_sum = std::log(std::exp(1) + std::exp(5) + std::exp(3));
  EXPECT_NEAR(DataOf(LogSumExpOver(x, {b}))[0], log_sum, 1e-12);
  EXPECT_FALSE(SumOver(Tensor(), {a}).valid());
}

TEST(Reduce, OfBools) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 1, 1, 0, 1, 0}, kBool, {a, b});
  EXPECT_EQ(ReduceAll(x, {a}).dtype(), kBool);
  EXPECT_THAT(DataOf(ReduceAll(x, {a})), ElementsAre(1, 0));
  EXPECT_THAT(DataOf(ReduceAll(x, {b})), ElementsAre(0, 1, 0));
  EXPECT_THAT(DataOf(ReduceAny(x, {})), ElementsAre(1));
  EXPECT_THAT(DataOf(AllOver(x, {a, b})), ElementsAre(0));
  EXPECT_THAT(DataOf(AnyOver(LogicalNot(x), {b})), ElementsAre(0, 1));
  const Tensor none = Zeros(graph, kBool, {{"none", 0}});
  EXPECT_THAT(DataOf(ReduceAll(none, {})), ElementsAre(1));
  EXPECT_THAT(DataOf(ReduceAny(none, {})), ElementsAre(0));
  EXPECT_FALSE(ReduceAll({}, {}).valid());
}

TEST(ReduceFirst, TakesIndexZeroOfEachReducedDimension) {
  Graph graph;
  const Tensor x = Table(graph, kInt32);
  EXPECT_THAT(DataOf(ReduceFirst(x, {a})), ElementsAre(1, 6));
  EXPECT_THAT(DataOf(ReduceFirst(x, {b})), ElementsAre(1, 5, 3));
  EXPECT_THAT(DataOf(ReduceFirst(x, {b, a})), ElementsAre(1, 6, 5, 2, 3, 4));
  EXPECT_THAT(DataOf(ReduceFirst(x, {})), ElementsAre(1));
  EXPECT_THAT(DataOf(FirstOver(x, {b})), ElementsAre(1, 6));
  EXPECT_EQ(FirstOver(x, {b, a}).dtype(), kInt32);
  ExpectSecondGradients({Numbers({a, b}, 1)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          return Square(ReduceFirst(xs[0], {b})) * xs[0];
                        });
}

TEST(ReduceErrors, BoolsAndFirstElements) {
  ExpectError([](Graph& g) { ReduceAll(Input(g, "x", kFloat32, {a}), {}); },
              {"reduce_all takes bool, not f32", "Cast()"});
  ExpectError([](Graph& g) { ReduceAny(Input(g, "x", kBool, {a}), {b}); },
              {"\"b\"", "reduce_any"});
  ExpectError(
      [](Graph& g) {
        ReduceFirst(Input(g, "x", kFloat32, {a, {"none", 0}}), {a});
      },
      {"dimension \"none\" of \"x\" has no first element (reduce_first"});
  ExpectError([](Graph& g) { FirstOver(Input(g, "x", kFloat32, {a}), {b}); },
              {"\"x\" has no dimension \"b\"", "first_over"});
}

TEST(ReduceErrors, OverADimensionThatIsNotThere) {
  ExpectError(
      [](Graph& g) {
        EXPECT_EQ(SumOver(Input(g, "x", kFloat32, {a, b}), {{"bb", 3}}).shape(),
                  Shape({a, b}));
      },
      {"\"x\" has no dimension \"bb\"", "did you mean \"b\"?", "sum_over"});
  ExpectError(
      [](Graph& g) {
        MaxOver(Input(g, "x", kFloat32, {a, b}), {{"b", 4}});
      },
      {"dimension \"b\" is 3 in \"x\" but 4 in the output", "max_over"});
  ExpectError(
      [](Graph& g) {
        MeanOver(Table(g), {a, a});
      },
      {"\"a\" occurs twice"});
  ExpectError([](Graph& g) { SumOver(Ones(g, kBool, {a}), {a}); },
              {"not bool"});
}

TEST(Reduce, OverNoDimensionTransposes) {
  Graph graph;
  EXPECT_THAT(DataOf(ReduceSum(Table(graph), {b, a})),
              ElementsAre(1, 6, 5, 2, 3, 4));
  EXPECT_THAT(DataOf(ReduceMax(Table(graph), {a, b})),
              ElementsAre(1, 5, 3, 6, 2, 4));
}

TEST(Reduce, OfIntegers) {
  Graph graph;
  const Tensor x = Table(graph, kInt64);
  EXPECT_THAT(DataOf(ReduceSum(x, {a})), ElementsAre(9, 12));
  EXPECT_THAT(DataOf(ReduceMin(x, {})), ElementsAre(1));
}

TEST(Reduce, OverNoElements) {
  Graph graph;
  const Shape empty = {a, {"none", 0}};
  const Tensor x = Zeros(graph, kFloat32, empty);
  EXPECT_THAT(DataOf(ReduceSum(x, {a})), ElementsAre(0, 0));
  EXPECT_THAT(DataOf(ReduceMax(x, {a})), ElementsAre(-kInfinity, -kInfinity));
  EXPECT_THAT(DataOf(ReduceMin(x, {a})), ElementsAre(kInfinity, kInfinity));
  EXPECT_TRUE(std::isnan(DataOf(ReduceMean(x, {a}))[0]));
  EXPECT_THAT(DataOf(ReduceLogSumExp(x, {a})),
              ElementsAre(-kInfinity, -kInfinity));
  EXPECT_THAT(DataOf(ReduceMax(Zeros(graph, kInt32, empty), {a})),
              ElementsAre(-2147483648.0, -2147483648.0));
}

// The greatest f16 is 65504: a sum or a count may exceed it.
TEST(Reduce, MeansAndCountsOfHalfFloatsAreF32) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    Graph graph;
    const Tensor x = Ones(graph, dtype, {{"n", 70000}});
    const Tensor mean = ReduceMean(x, {});
    const Tensor log_sum = ReduceLogSumExp(x, {});
    const Tensor max = ReduceMax(x, {});
    EXPECT_EQ(mean.dtype(), dtype);
    EXPECT_EQ(log_sum.dtype(), dtype);
    const Tensor g = Gradients(max, {x})[0];
    EXPECT_EQ(g.dtype(), dtype);
    ASSERT_OK(graph.status());
    EXPECT_THAT(DataOf(mean), ElementsAre(1));
    EXPECT_NEAR(DataOf(log_sum)[0], std::log(70000) + 1, 0.05);
    EXPECT_NEAR(DataOf(g)[69999], 1 / 70000.0, 1e-7);
    for (const auto& operation : graph.operations()) {
      if (operation->kind() == "reduce_sum") {
        EXPECT_EQ(operation->dtype(), kFloat32) << operation->name();
      }
    }
  }
}

TEST(Reduce, PropagatesNaN) {
  Graph graph;
  const Tensor x = Constant(graph, {1, std::nan(""), 3}, kFloat32, {b});
  EXPECT_TRUE(std::isnan(DataOf(ReduceMax(x, {}))[0]));
  EXPECT_TRUE(std::isnan(DataOf(ReduceMin(x, {}))[0]));
  EXPECT_TRUE(std::isnan(DataOf(ReduceLogSumExp(x, {}))[0]));
}

TEST(ReduceGradient, TiesDivideItEqually) {
  Graph graph;
  const Tensor x = Constant(graph, {2, 1, 2, 1, 1, 1}, kFloat32, {a, b});
  EXPECT_THAT(DataOf(Gradients(ReduceMax(x, {a}) * 6, {x})[0]),
              ElementsAre(3, 0, 3, 2, 2, 2));
  EXPECT_THAT(DataOf(Gradients(ReduceMin(x, {}) * 8, {x})[0]),
              ElementsAre(0, 2, 0, 2, 2, 2));
}

TEST(ReduceLogSumExp, DoesNotOverflow) {
  Graph graph;
  const Tensor x = Constant(graph, {1000, 1000, -1000}, kFloat32, {b});
  EXPECT_NEAR(DataOf(ReduceLogSumExp(x, {}))[0], 1000 + std::log(2), 1e-9);
  EXPECT_NEAR(DataOf(ReduceLogSumExp(-x, {}))[0], 1000, 1e-9);
  EXPECT_THAT(DataOf(Gradients(ReduceLogSumExp(x, {}), {x})[0]),
              ElementsAre(0.5, 0.5, 0));
}

TEST(ReduceLogSumExp, OfMinusInfinities) {
  Graph graph;
  const Tensor x =
      Constant(graph, {-kInfinity, -kInfinity, -kInfinity, 0, -kInfinity, 0},
               kFloat32, {a, b});
  const Tensor y = ReduceLogSumExp(x, {a});
  EXPECT_THAT(DataOf(y), ElementsAre(-kInfinity, std::log(2)));
  EXPECT_THAT(DataOf(Gradients(y, {x})[0]), ElementsAre(0, 0, 0, 0.5, 0, 0.5));
  const Tensor z = Constant(graph, {1, kInfinity, 2}, kFloat32, {b});
  EXPECT_THAT(DataOf(ReduceLogSumExp(z, {})), ElementsAre(kInfinity));
}

struct ReduceCase {
  const char* name;
  std::function<Tensor(Tensor, Shape)> reduce;
  friend void PrintTo(const ReduceCase& c, std::ostream* out) {
    *out << c.name;
  }
};

class ReduceTest : public ::testing::TestWithParam<ReduceCase> {};

TEST_P(ReduceTest, GradientsOfBothOrders) {
  for (const Shape& shape :
       std::vector<Shape>{{{"a", 2}, {"b", 3}, {"c", 4}},
                          {{"c", 5}, {"a", 1}, {"b", 2}},
                          {{"b", 3}, {"a", 2}, {"c", 1}}}) {
    for (const std::vector<std::string>& keep :
         std::vector<std::vector<std::string>>{
             {}, {"a"}, {"c", "a"}, {"b", "c"}, {"c", "b", "a"}}) {
      Shape output;
      for (const std::string& name : keep) {
        output = output.With({name, shape.SizeOf(name)});
      }
      SCOPED_TRACE(
          absl::StrCat("[", shape.ToString(), "] to [", output.ToString()));
      ExpectSecondGradients({Numbers(shape, 7)},
                            [&](Graph&, const std::vector<Tensor>& xs) {
                              return GetParam().reduce(xs[0], output);
                            });
    }
  }
}

TEST_P(ReduceTest, OutputIsASubset) {
  const auto& reduce = GetParam().reduce;
  ExpectError(
      [&](Graph& g) {
        reduce(Input(g, "x", kFloat32, {a, b}), {{"c", 2}});
      },
      {"\"x\" has no dimension \"c\""});
  ExpectError(
      [&](Graph& g) {
        reduce(Input(g, "x", kFloat32, {a, b}), {{"b", 4}});
      },
      {"dimension \"b\" is 3 in \"x\" but 4 in the output"});
  ExpectError(
      [&](Graph& g) {
        reduce(Input(g, "x", kFloat32, {a, b}), {a, a});
      },
      {"\"a\" occurs twice"});
  EXPECT_FALSE(reduce(Tensor(), {}).valid());
}

TEST_P(ReduceTest, DTypes) {
  const auto& reduce = GetParam().reduce;
  ExpectError([&](Graph& g) { reduce(Ones(g, kBool, {a}), {}); },
              {GetParam().name, "not bool", "Cast()"});
}

INSTANTIATE_TEST_SUITE_P(
    All, ReduceTest,
    ::testing::Values(
        ReduceCase{"reduce_sum",
                   [](Tensor x, Shape s) { return ReduceSum(x, s); }},
        ReduceCase{"reduce_mean",
                   [](Tensor x, Shape s) { return ReduceMean(x, s); }},
        ReduceCase{"reduce_max",
                   [](Tensor x, Shape s) { return ReduceMax(x, s); }},
        ReduceCase{"reduce_min",
                   [](Tensor x, Shape s) { return ReduceMin(x, s); }},
        ReduceCase{"reduce_logsumexp",
                   [](Tensor x, Shape s) { return ReduceLogSumExp(x, s); }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ReduceErrors, MeanAndLogSumExpTakeFloats) {
  ExpectError([](Graph& g) { ReduceMean(Ones(g, kInt32, {a}), {}); },
              {"reduce_mean takes a float dtype, not i32 (reduce_mean, "});
  ExpectError([](Graph& g) { ReduceLogSumExp(Ones(g, kInt32, {a}), {}); },
              {"reduce_logsumexp takes a float dtype, not i32"});
}

TEST(ReduceErrors, SuggestTheNearestName) {
  ExpectError(
      [](Graph& g) {
        ReduceSum(Input(g, "x", kFloat32, {{"length", 2}}), {{"lenght", 2}});
      },
      {"\"x\" has no dimension \"lenght\"", "did you mean \"length\"?"});
}

}  // namespace
}  // namespace mtf
