// SPDX-License-Identifier: Apache-2.0
#include "ops/depend.h"

#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension a{"a", 3}, b{"b", 2};

TEST(Depend, IsItsFirstOperand) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kInt32, {a});
  const Tensor y = Depend(x, {Zeros(graph, kFloat32, {b}), x});
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(y.dtype(), kInt32);
  EXPECT_THAT(DataOf(y), ElementsAre(1, 2, 3));
  EXPECT_TRUE(SameTensor(Depend(x, {}), x));
  EXPECT_FALSE(Depend({}, {}).valid());
}

TEST(Depend, ExecutesAssignments) {
  Graph graph;
  const Tensor count = Variable(graph, "count", Zeros(graph, kFloat32, {}));
  const Tensor x = Constant(graph, 7, kFloat32, {});
  OracleVariables variables = {{"count", {{}, kFloat32, {4}}}};
  const auto values =
      Interpret(graph, {}, {Depend(x, {AssignAdd(count, Constant(graph, 1))})},
                &variables);
  ASSERT_OK(values);
  EXPECT_EQ((*values)[0].data[0], 7);
  EXPECT_EQ(variables["count"].data[0], 5);
}

TEST(Depend, GradientGoesToTheFirstOperand) {
  ExpectSecondGradients({Numbers({a}, 1)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          return Square(Depend(xs[0], {Sin(xs[0])})) * xs[0];
                        });
  Graph graph;
  const Tensor x = Zeros(graph, kFloat32, {a}), y = Zeros(graph, kFloat32, {a});
  EXPECT_FALSE(Gradients(Depend(x, {y}), {y})[0].valid());
}

TEST(DependErrors, EmptyTensors) {
  ExpectError(
      [](Graph& g) {
        EXPECT_EQ(Depend(Input(g, "x", kFloat32, {a}), {Tensor()}).shape(),
                  Shape({a}));
      },
      {"empty Tensor", "(depend"});
}

}  // namespace
}  // namespace mtf
