// SPDX-License-Identifier: Apache-2.0
#include "ops/scan.h"

#include <limits>

#include "ops/reshape.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension batch{"batch", 2}, length{"length", 4}, model{"model", 3};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor Line(Graph& graph, std::vector<double> data, DType dtype = kFloat32) {
  const Dimension dim{"length", static_cast<int64_t>(data.size())};
  return Constant(graph, data, dtype, {dim});
}

TEST(CumulativeSum, SumsUpToEachElement) {
  Graph graph;
  const Tensor x = Line(graph, {1, 2, 3, 4});
  EXPECT_THAT(DataOf(CumulativeSum(x, "length")), ElementsAre(1, 3, 6, 10));
  EXPECT_THAT(DataOf(CumulativeSum(x, "length", {.exclusive = true})),
              ElementsAre(0, 1, 3, 6));
  EXPECT_THAT(DataOf(CumulativeSum(x, "length", {.reverse = true})),
              ElementsAre(10, 9, 7, 4));
  EXPECT_THAT(
      DataOf(CumulativeSum(x, "length", {.exclusive = true, .reverse = true})),
      ElementsAre(9, 7, 4, 0));
}

TEST(CumulativeSum, AlongAnyDimension) {
  const OracleTensor x = Numbers({batch, length, model}, 1);
  for (const std::string dim : {"batch", "length", "model"}) {
    Graph graph;
    const OracleTensor y = Fetch(CumulativeSum(ConstantOf(graph, x), dim));
    EXPECT_EQ(y.shape, x.shape);
    ExpectElements(y, [&](const ElementIndex& index) {
      double sum = 0;
      ElementIndex at = index;
      for (at[dim] = 0; at[dim] <= index.at(dim); ++at[dim]) sum += At(x, at);
      return sum;
    });
  }
}

TEST(CumulativeSum, OfIntegersWrapsAround) {
  Graph graph;
  const Tensor x = Line(graph, {2147483647, 1, -1}, kInt32);
  const Tensor y = CumulativeSum(x, "length");
  EXPECT_EQ(y.dtype(), kInt32);
  EXPECT_THAT(DataOf(y), ElementsAre(2147483647, -2147483648.0, 2147483647));
}

TEST(CumulativeSum, OfNoElements) {
  Graph graph;
  EXPECT_THAT(DataOf(CumulativeSum(Line(graph, {}), "length")), ElementsAre());
}

TEST(CumulativeMax, PropagatesNaNAndStartsWithTheIdentity) {
  Graph graph;
  const Tensor x = Line(graph, {1, 3, 2, kNan, 5});
  EXPECT_THAT(DataOf(CumulativeMax(x, "length")),
              ElementsAre(1, 3, 3, ::testing::IsNan(), ::testing::IsNan()));
  EXPECT_THAT(DataOf(CumulativeMax(x, "length", {.exclusive = true})),
              ElementsAre(-kInfinity, 1, 3, 3, ::testing::IsNan()));
  EXPECT_THAT(DataOf(CumulativeMin(Line(graph, {4, 2, 7}), "length",
                                   {.reverse = true})),
              ElementsAre(2, 2, 7));
  EXPECT_THAT(DataOf(CumulativeMin(Line(graph, {4, -7}, kInt32), "length",
                                   {.exclusive = true})),
              ElementsAre(2147483647, 4));
}

struct Kind {
  Tensor (*scan)(Tensor, absl::string_view, ScanOptions, std::source_location);
  const char* name;
};
const Kind kKinds[] = {
    {CumulativeSum, "sum"}, {CumulativeMax, "max"}, {CumulativeMin, "min"}};

TEST(ScanGradient, OfEveryKindAndDirection) {
  for (const Kind& kind : kKinds) {
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        for (const char* dim : {"length", "model"}) {
          SCOPED_TRACE(absl::StrCat(kind.name, exclusive, reverse, dim));
          ExpectSecondGradients({Numbers({batch, length, model}, 7)},
                                [&](Graph&, const auto& xs) {
                                  const Tensor y = kind.scan(
                                      xs[0], dim, {exclusive, reverse},
                                      std::source_location::current());
                                  // The identity of a maximum is infinite and
                                  // has no slope.
                                  return Select(Less(Abs(y), 1e6), y, 0.0);
                                });
        }
      }
    }
  }
}

TEST(ScanGradient, OfASumIsTheSumInTheOtherDirection) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {length});
  const auto g =
      Gradients(CumulativeSum(x, "length", {.exclusive = true}), {x});
  EXPECT_EQ(g[0].operation()->kind(), "cumulative_sum");
  EXPECT_EQ(g[0].operation()->attributes(), "length exclusive reverse");
  EXPECT_THAT(DataOf(g[0]), ElementsAre(3, 2, 1, 0));
}

TEST(ScanGradient, OfAMaximumGoesToTheFirstOfEqualOnes) {
  Graph graph;
  const Tensor x = Line(graph, {-kInfinity, 2, 2, 1, 3, kNan, 4});
  const auto g = Gradients(CumulativeMax(x, "length"), {x});
  EXPECT_THAT(DataOf(g[0]), ElementsAre(1, 3, 0, 0, 1, 2, 0));
  const auto back =
      Gradients(CumulativeMax(x, "length", {.exclusive = true}), {x});
  EXPECT_THAT(DataOf(back[0]), ElementsAre(1, 3, 0, 0, 1, 1, 0));
  const auto reverse =
      Gradients(CumulativeMin(x, "length", {.reverse = true}), {x});
  // All elements before the NaN, an infinity too, keep their maxima.
  EXPECT_THAT(DataOf(reverse[0]), ElementsAre(0, 0, 0, 0, 0, 6, 1));
}

TEST(ScanErrors, NameTheDimensionAndTheDType) {
  for (const Kind& kind : kKinds) {
    ExpectError(
        [&](Graph& graph) {
          kind.scan(Zeros(graph, kFloat32, {length}), "lenght", {},
                    std::source_location::current());
        },
        {"has no dimension \"lenght\"", "did you mean \"length\"?",
         absl::StrCat("(cumulative_", kind.name, ", ")});
    ExpectError(
        [&](Graph& graph) {
          kind.scan(Constant(graph, {1, 0, 1, 0}, kBool, {length}), "length",
                    {}, std::source_location::current());
        },
        {absl::StrCat("cumulative_", kind.name,
                      " takes a float or integer dtype, not bool"),
         "Cast() the input"});
  }
  EXPECT_FALSE(CumulativeSum({}, "length").valid());
}

}  // namespace
}  // namespace mtf
