// SPDX-License-Identifier: Apache-2.0
#include "ops/top_k.h"

#include <limits>
#include <string>

#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension batch{"batch", 2}, expert{"expert", 5}, model{"model", 3};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor Line(Graph& graph, std::vector<double> data, DType dtype = kFloat32) {
  const Dimension dim{"expert", static_cast<int64_t>(data.size())};
  return Constant(graph, data, dtype, {dim});
}

TEST(TopK, GreatestFirstWithTheirIndices) {
  Graph graph;
  const Tensor x = Constant(graph, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, kFloat32,
                            {batch, expert});
  const TopKResult top = TopK(x, "expert", {"choice", 3});
  EXPECT_EQ(top.values.shape(), Shape({batch, {"choice", 3}}));
  EXPECT_EQ(top.indices.shape(), Shape({batch, {"choice", 3}}));
  EXPECT_EQ(top.indices.dtype(), kInt32);
  EXPECT_THAT(DataOf(top.values), ElementsAre(5, 4, 3, 9, 6, 5));
  EXPECT_THAT(DataOf(top.indices), ElementsAre(4, 2, 0, 0, 2, 3));
}

TEST(TopK, LowerIndexFirstAmongEqualElements) {
  Graph graph;
  const TopKResult top =
      TopK(Line(graph, {1, 2, 2, 1, 2}, kInt32), "expert", {"k", 5});
  EXPECT_EQ(top.values.dtype(), kInt32);
  EXPECT_THAT(DataOf(top.indices), ElementsAre(1, 2, 4, 0, 3));
  EXPECT_THAT(
      DataOf(TopK(Line(graph, {-0.0, 0.0, -0.0}), "expert", {"k", 3}).indices),
      ElementsAre(0, 1, 2));
}

TEST(TopK, NaNIsGreaterThanInfinity) {
  Graph graph;
  const TopKResult top = TopK(
      Line(graph, {1, kInfinity, kNan, -kInfinity, -kNan}), "expert", {"k", 5});
  EXPECT_THAT(DataOf(top.indices), ElementsAre(2, 4, 1, 0, 3));
}

TEST(TopK, AlongAnyDimension) {
  const OracleTensor x = Numbers({batch, expert, model}, 3);
  for (const Dimension& dim : x.shape) {
    Graph graph;
    const TopKResult top =
        TopK(ConstantOf(graph, x), dim.name, {"k", dim.size});
    EXPECT_EQ(top.values.shape(),
              x.shape.Without(dim.name).With({"k", dim.size}));
    // The rank of an element is the number of greater ones; all differ.
    const OracleTensor indices = Fetch(top.indices);
    ForEachElement(indices.shape, [&](const ElementIndex& index) {
      ElementIndex at = index;
      at[dim.name] = static_cast<int64_t>(At(indices, index));
      const double value = At(x, at);
      int64_t greater = 0;
      for (at[dim.name] = 0; at[dim.name] < dim.size; ++at[dim.name]) {
        greater += At(x, at) > value;
      }
      EXPECT_EQ(greater, index.at("k"));
    });
  }
}

TEST(ArgMax, IsTheIndexOfTheFirstGreatest) {
  Graph graph;
  const Tensor x = Constant(graph, {3, 5, 4, 5, 1, 9, 2, 6, 5, 3}, kFloat32,
                            {batch, expert});
  const Tensor y = ArgMax(x, "expert");
  EXPECT_EQ(y.shape(), Shape({batch}));
  EXPECT_THAT(DataOf(y), ElementsAre(1, 0));
  EXPECT_THAT(DataOf(ArgMax(x, "batch")), ElementsAre(1, 0, 1, 0, 1));
  // The dimension of size 1 is removed.
  EXPECT_THAT(
      DataOf(ArgMax(Constant(graph, {1, 2}, kInt32, {{"first", 2}}), "first")),
      ElementsAre(1));
}

TEST(BottomK, LeastFirstWithTheirIndices) {
  Graph graph;
  const Tensor x =
      Constant(graph, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, kInt64, {batch, expert});
  const TopKResult bottom = BottomK(x, "expert", {"choice", 3});
  EXPECT_EQ(bottom.values.dtype(), kInt64);
  EXPECT_THAT(DataOf(bottom.values), ElementsAre(1, 1, 3, 2, 3, 5));
  EXPECT_THAT(DataOf(bottom.indices), ElementsAre(1, 3, 0, 1, 4, 3));
  EXPECT_THAT(DataOf(ArgMin(x, "expert")), ElementsAre(1, 1));
  const Tensor line = Line(graph, {1, kInfinity, kNan, -kInfinity, -kNan});
  EXPECT_THAT(DataOf(BottomK(line, "expert", {"k", 5}).indices),
              ElementsAre(3, 0, 1, 2, 4));
  ExpectSecondGradients({Numbers({batch, expert}, 5)},
                        [&](Graph&, const auto& xs) {
                          return BottomK(xs[0], "expert", {"k", 2}).values;
                        });
}

TEST(TopKGradient, IsThatOfTheValues) {
  for (const char* dim : {"batch", "expert", "model"}) {
    SCOPED_TRACE(dim);
    ExpectSecondGradients({Numbers({batch, expert, model}, 5)},
                          [&](Graph&, const auto& xs) {
                            return TopK(xs[0], dim, {"k", 2}).values;
                          });
  }
  Graph graph;
  const Tensor x = Line(graph, {1, 4, 2, 3});
  const TopKResult top = TopK(x, "expert", {"k", 2});
  EXPECT_THAT(DataOf(Gradients(top.values, {x})[0]), ElementsAre(0, 1, 0, 1));
  EXPECT_FALSE(Gradients(Cast(top.indices, kFloat32), {x})[0].valid());
}

TEST(TopKErrors, NameK) {
  const auto top = [](Dimension k, DType dtype = kFloat32) {
    return [=](Graph& graph) {
      const TopKResult top =
          TopK(Zeros(graph, dtype, {batch, expert}), "expert", k);
      // The call returns a tensor of the intended shape.
      EXPECT_EQ(top.values.dtype(), dtype);
      EXPECT_EQ(top.indices.dtype(), kInt32);
      EXPECT_EQ(top.values.shape(), top.indices.shape());
    };
  };
  ExpectError(top({"k", 6}),
              {"k is \"k\" of size 6, but dimension \"expert\" of \"constant\" "
               "has 5 (top_k, "});
  ExpectError(top({"k", 0}),
              {"k is \"k\" of size 0, which must be at least 1"});
  ExpectError(top({"k", -1}),
              {"k is \"k\" of size -1, which must be at least 1"});
  ExpectError(top({"batch", 2}),
              {"already has a dimension \"batch\", the name of k",
               "give k another name"});
  ExpectError(top({"expert", 2}), {"already has a dimension \"expert\""});
  ExpectError(top({"k", 2}, kBool),
              {"top_k takes a float or integer dtype, not bool"});
  ExpectError(
      [](Graph& graph) {
        TopK(Zeros(graph, kFloat32, {expert}), "exprt", {"k", 1});
      },
      {"has no dimension \"exprt\"", "did you mean \"expert\"?"});
  ExpectError(
      [](Graph& graph) {
        TopK(Zeros(graph, kFloat32, {{"vocab", int64_t{1} << 31}}), "vocab",
             {"k", 1});
      },
      {"has 2147483648 elements, more than the 2147483647 that an i32 can "
       "index"});
  ExpectError(
      [](Graph& graph) {
        ArgMax(Zeros(graph, kFloat32, {{"none", 0}}), "none");
      },
      {"of size 1, but dimension \"none\" of \"constant\" has 0"});
  ExpectError(
      [](Graph& graph) {
        BottomK(Zeros(graph, kBool, {expert}), "expert", {"k", 1});
      },
      {"bottom_k takes a float or integer dtype, not bool"});
  EXPECT_FALSE(TopK({}, "expert", {"k", 1}).values.valid());
  EXPECT_FALSE(ArgMax({}, "expert").valid());
}

}  // namespace
}  // namespace mtf
