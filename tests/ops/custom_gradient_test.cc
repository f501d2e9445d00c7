// SPDX-License-Identifier: Apache-2.0
#include "ops/custom_gradient.h"

#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension a{"a", 3};

using Tensors = std::vector<Tensor>;

TEST(CustomGradient, ReplacesTheGradientOfWhatComputesTheOutputs) {
  Graph graph;
  const Tensor x = Constant(graph, {0.2, 1.6, -0.7}, kFloat32, {a});
  const Tensor y = CustomGradient({Floor(x + 0.5)}, {x},
                                  [](const Tensors& dy) { return dy; })[0];
  EXPECT_THAT(DataOf(y), ElementsAre(0, 2, -1));
  EXPECT_THAT(DataOf(Gradients(y * y, {x})[0]), ElementsAre(0, 4, -2));
}

TEST(CustomGradient, ClipsGradients) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kFloat32, {a});
  const Tensor y = CustomGradient({x}, {x}, [](const Tensors& dy) {
    return Tensors{Minimum(dy[0], 4.0)};
  })[0];
  EXPECT_THAT(DataOf(Gradients(y * y, {x})[0]), ElementsAre(2, 4, 4));
}

TEST(CustomGradient, ReadsInputsOutputsAndSeveralGradients) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kFloat32, {a});
  const Tensor w = Constant(graph, {2, 2, 2}, kFloat32, {a});
  const Tensor product = x * w, square = x * x;
  const Tensors y = CustomGradient(
      {product, square}, {x, w}, [x, w, square](const Tensors& dy) {
        return Tensors{dy[0] * w + 2.0 * dy[1] * x, dy[0] * x + square};
      });
  // The second output has no reader: its gradient is zero.
  const Tensors first = Gradients(y[0], {x, w});
  EXPECT_THAT(DataOf(first[0]), ElementsAre(2, 2, 2));
  EXPECT_THAT(DataOf(first[1]), ElementsAre(1 + 1, 2 + 4, 3 + 9));
  const Tensors both = Gradients(y[0] + 10.0 * y[1], {x, w});
  EXPECT_THAT(DataOf(both[0]), ElementsAre(22, 42, 62));
}

TEST(CustomGradient, MayLeaveInputsWithoutGradient) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kFloat32, {a});
  const Tensor n = Constant(graph, {1, 2, 3}, kInt32, {a});
  const Tensor y = CustomGradient({x * 2.0}, {x, n}, [](const Tensors&) {
    return Tensors{Tensor(), Tensor()};
  })[0];
  EXPECT_FALSE(Gradients(y, {x})[0].valid());
}

TEST(CustomGradient, HasGradientsOfItsOwn) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kFloat32, {a});
  const Tensor y = CustomGradient({x * x * x}, {x}, [x](const Tensors& dy) {
    return Tensors{dy[0] * 3.0 * x * x};
  })[0];
  const Tensor dx = Gradients(y, {x})[0];
  EXPECT_THAT(DataOf(Gradients(dx, {x})[0]), ElementsAre(6, 12, 18));
}

TEST(CustomGradient, ReportsErrorsAtItsLine) {
  const auto error = [](const GradientFunction& gradient) {
    Graph graph;
    const Tensor x = Constant(graph, {1, 2, 3}, kFloat32, {a});
    const Tensor y = CustomGradient({x}, {x}, gradient)[0];
    Gradients(y, {x});
    return graph.status();
  };
  EXPECT_THAT(error([](const Tensors&) { return Tensors{}; }),
              StatusIs(kInvalid, HasSubstr("the gradient function returned 0 "
                                           "tensors for 1 inputs")));
  EXPECT_THAT(error([](const Tensors& dy) {
                return Tensors{dy[0], dy[0]};
              }),
              StatusIs(kInvalid, HasSubstr("returned 2 tensors for 1 inputs")));
  EXPECT_THAT(
      error([](const Tensors& dy) { return Tensors{ReduceSum(dy[0], {})}; }),
      StatusIs(kInvalid, AllOf(HasSubstr("the gradient of input 0"),
                               HasSubstr("custom_gradient_test.cc"))));
  EXPECT_THAT(error(nullptr),
              StatusIs(kInvalid, HasSubstr("there is no gradient function")));
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kFloat32, {a});
  CustomGradient({}, {x}, [](const Tensors& dy) { return dy; });
  EXPECT_THAT(graph.status(),
              StatusIs(kInvalid, HasSubstr("there is no output")));
}

}  // namespace
}  // namespace mtf
