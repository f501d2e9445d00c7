// SPDX-License-Identifier: Apache-2.0
//
// Index takes one element along a dimension; Stack is its inverse.
#include "ops/index.h"
#include "ops/stack.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension a{"a", 2}, b{"b", 3};

Tensor Table(Graph& graph, DType dtype = kFloat32) {
  return Constant(graph, {1, 2, 3, 4, 5, 6}, dtype, {a, b});
}

TEST(Index, TakesOneElementAndDropsTheDimension) {
  Graph graph;
  for (int64_t i = 0; i < b.size; ++i) {
    const Tensor y = Index(Table(graph, kInt32), "b", i);
    EXPECT_EQ(y.shape(), Shape({a}));
    EXPECT_THAT(DataOf(y), ElementsAre(1 + i, 4 + i));
  }
  EXPECT_THAT(DataOf(Index(Table(graph), "a", 1)), ElementsAre(4, 5, 6));
  EXPECT_THAT(DataOf(Index(Index(Table(graph), "a", 0), "b", 2)),
              ElementsAre(3));
  EXPECT_FALSE(Index(Tensor(), "a", 0).valid());
}

TEST(Index, ByATensor) {
  Graph graph;
  const Tensor second = Constant(graph, 2, kInt32, {});
  const Tensor y = Index(Table(graph), "b", second);
  EXPECT_EQ(y.shape(), Shape({a}));
  EXPECT_THAT(DataOf(y), ElementsAre(3, 6));
  const Tensor each = Constant(graph, {2, 0}, kInt64, {a});
  EXPECT_THAT(DataOf(Index(Table(graph), "b", each)), ElementsAre(3, 4));
}

TEST(Index, GradientIsZeroElsewhere) {
  ExpectSecondGradients(
      {Numbers({a, b}, 1)}, [](Graph&, const std::vector<Tensor>& xs) {
        return Index(xs[0], "b", 1) * Index(Square(xs[0]), "b", 2);
      });
}

TEST(Stack, JoinsAlongANewDimension) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2}, kFloat32, {a});
  const Tensor y = Constant(graph, {3, 4}, kFloat32, {a});
  const Tensor z = Stack({x, y, x}, "time");
  EXPECT_EQ(z.shape(), Shape({{"time", 3}, a}));
  EXPECT_THAT(DataOf(z), ElementsAre(1, 2, 3, 4, 1, 2));
  EXPECT_EQ(Stack({x}, "time").shape(), Shape({{"time", 1}, a}));
  EXPECT_FALSE(Stack({}, "time").valid());
}

TEST(Stack, TakesAnyOrderOfDimensions) {
  Graph graph;
  const Tensor x = Table(graph);
  const Tensor y = Constant(graph, {1, 4, 2, 5, 3, 6}, kFloat32, {b, a});
  const Tensor z = Stack({x, y}, "time");
  EXPECT_EQ(z.shape(), Shape({{"time", 2}, a, b}));
  EXPECT_THAT(DataOf(z), ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6));
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(DataOf(Index(z, "time", i)), DataOf(x));
  }
}

TEST(Stack, GradientsGoToTheirTensors) {
  ExpectSecondGradients({Numbers({a, b}, 1), Numbers({b, a}, 2)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          return Square(Stack({xs[0], xs[1], xs[0]}, "time"));
                        });
}

TEST(IndexErrors, DimensionAndRange) {
  ExpectError(
      [](Graph& g) {
        Index(Input(g, "x", kFloat32, {a, b}), "B", 0);
      },
      {"\"x\" has no dimension \"B\"", "f32[a=2, b=3]", "index"});
  for (int64_t i : {-1, 3, 100}) {
    ExpectError(
        [i](Graph& g) {
          EXPECT_EQ(Index(Input(g, "x", kFloat32, {a, b}), "b", i).shape(),
                    Shape({a}));
        },
        {absl::StrCat("index ", i,
                      " is outside dimension \"b\" of \"x\", "
                      "which is 3"),
         "f32[a=2, b=3]"});
  }
  ExpectError(
      [](Graph& g) {
        Index(Ones(g, kFloat32, {a}), "a", Ones(g, kFloat32, {}));
      },
      {"i32"});
}

TEST(StackErrors, NamesWhatDiffers) {
  const auto stack = [](Shape shape, DType dtype, const std::string& dim) {
    return [=](Graph& g) {
      Stack({Input(g, "x", kFloat32, {a, b}), Input(g, "y", dtype, shape)},
            dim);
    };
  };
  ExpectError(stack({a, {"b", 4}}, kFloat32, "time"),
              {"dimension \"b\" is 3 in \"x\" but 4 in \"y\"", "help"});
  ExpectError(stack({a}, kFloat32, "time"),
              {"\"y\" has no dimension \"b\", but \"x\" has it"});
  ExpectError(stack({a, b, {"c", 1}}, kFloat32, "time"),
              {"\"x\" has no dimension \"c\", but \"y\" has it"});
  ExpectError(stack({a, b}, kInt32, "time"), {"\"x\" is f32 but \"y\" is i32"});
  ExpectError(stack({a, b}, kFloat32, "b"),
              {"\"x\" already has the dimension \"b\"", "Concat()"});
  ExpectError(stack({a, b}, kFloat32, ""), {"name"});
}

}  // namespace
}  // namespace mtf
