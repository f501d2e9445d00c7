// SPDX-License-Identifier: Apache-2.0
#include "ops/track_average.h"

#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension n{"n", 2};

// The averages after a step for `loss`.
std::vector<std::vector<double>> Next(Tensor loss, OracleVariables* variables) {
  std::vector<Tensor> fetches;
  for (const AverageUpdate& each : AverageUpdates(loss)) {
    fetches.push_back(each.next);
  }
  const auto values = Interpret(loss.graph(), {}, fetches, variables);
  EXPECT_OK(values);
  std::vector<std::vector<double>> next;
  for (const OracleTensor& value : *values) next.push_back(value.data);
  return next;
}

TEST(TrackAverage, MovesTowardsTheStatistic) {
  Graph graph;
  const Tensor average =
      Variable(graph, "average", Zeros(graph, kFloat32, {n}));
  const Tensor x = Constant(graph, {4, 8}, kFloat32, {n});
  const Tensor y = TrackAverage(x * 2.0, average, x, 0.25);
  const Tensor loss = ReduceSum(y, {});
  OracleVariables variables = {{"average", {{n}, kFloat32, {0, 4}}}};
  EXPECT_THAT(Next(loss, &variables), ElementsAre(ElementsAre(1, 5)));
  const auto value = Interpret(graph, {}, {y}, &variables);
  ASSERT_OK(value);
  EXPECT_THAT((*value)[0].data, ElementsAre(8, 16));  // the identity
  EXPECT_OK(graph.status());
}

TEST(TrackAverage, CountsOnlyWhatTheLossDependsOn) {
  Graph graph;
  const Tensor a = Variable(graph, "a", Zeros(graph, kFloat32, {}));
  const Tensor b = Variable(graph, "b", Zeros(graph, kFloat32, {}));
  const Tensor one = Constant(graph, 1, kFloat32, {});
  const Tensor x = TrackAverage(one, a, one, 0.5);
  const Tensor y = TrackAverage(x * 2.0, b, one, 0.5);
  EXPECT_EQ(AverageUpdates(one).size(), 0);
  ASSERT_EQ(AverageUpdates(x).size(), 1);
  ASSERT_EQ(AverageUpdates(y * y).size(), 2);
  EXPECT_TRUE(SameTensor(AverageUpdates(y)[0].average, a));
  EXPECT_TRUE(SameTensor(AverageUpdates(y)[1].average, b));
  EXPECT_TRUE(AverageUpdates(Tensor()).empty());
}

TEST(TrackAverage, TwiceMovesByOneStatisticAfterTheOther) {
  Graph graph;
  const Tensor average = Variable(graph, "average", Zeros(graph, kFloat32, {}));
  const Tensor one = Constant(graph, 1, kFloat32, {});
  Tensor y = TrackAverage(one, average, one * 4.0, 0.5);
  y = TrackAverage(y, average, one * 8.0, 0.5);
  OracleVariables variables = {{"average", {{}, kFloat32, {0}}}};
  EXPECT_THAT(Next(y, &variables), ElementsAre(ElementsAre(5)));
}

TEST(TrackAverage, PassesTheGradient) {
  Graph graph;
  const Tensor average =
      Variable(graph, "average", Zeros(graph, kFloat32, {n}));
  const Tensor x = Constant(graph, {4, 8}, kFloat32, {n});
  const Tensor y = Square(TrackAverage(x, average, Exp(x), 0.25));
  EXPECT_THAT(DataOf(Gradients(y, {x})[0]), ElementsAre(8, 16));
}

TEST(TrackAverage, BadCallsAreErrors) {
  ExpectError(
      [](Graph& g) {
        const Tensor x = Zeros(g, kFloat32, {n});
        TrackAverage(x, x, x, 0.1);
      },
      {"is not a float variable", "Variable()"});
  ExpectError(
      [](Graph& g) {
        const Tensor x = Zeros(g, kFloat32, {n});
        TrackAverage(x, Variable(g, "a", x), Zeros(g, kFloat32, {}), 0.1);
      },
      {"differs from its average"});
  ExpectError(
      [](Graph& g) {
        const Tensor x = Zeros(g, kFloat32, {n});
        TrackAverage(x, Variable(g, "a", x), x, 1.5);
      },
      {"momentum is 1.5"});
  ExpectError(
      [](Graph& g) {
        const Tensor x = Zeros(g, kFloat32, {n});
        TrackAverage(x, Tensor(), x, 0.5);
      },
      {"empty"});
  EXPECT_FALSE(TrackAverage(Tensor(), Tensor(), Tensor(), 0.5).valid());
}

}  // namespace
}  // namespace mtf
