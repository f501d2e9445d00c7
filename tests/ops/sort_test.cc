// SPDX-License-Identifier: Apache-2.0
#include "ops/sort.h"

#include <algorithm>
#include <limits>
#include <string>

#include "ops/input.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension batch{"batch", 3}, sample{"sample", 7};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor Line(Graph& graph, std::vector<double> data, DType dtype = kFloat32) {
  const Dimension dim{"sample", static_cast<int64_t>(data.size())};
  return Constant(graph, data, dtype, {dim});
}

TEST(Sort, KeepsTheShapeAndSortsEachLine) {
  for (const char* dim : {"batch", "sample"}) {
    for (const bool descending : {false, true}) {
      Graph graph;
      const OracleTensor x = Numbers({batch, sample}, 3);
      const Tensor y = Sort(ConstantOf(graph, x), dim, {descending});
      EXPECT_EQ(y.shape(), x.shape);
      const OracleTensor sorted = Fetch(y);
      const Dimension along = x.shape[x.shape.Find(dim)];
      ForEachElement(x.shape.Without(dim), [&](const ElementIndex& row) {
        std::vector<double> wanted, got;
        ElementIndex at = row;
        for (at[dim] = 0; at[dim] < along.size; ++at[dim]) {
          wanted.push_back(At(x, at));
          got.push_back(At(sorted, at));
        }
        std::sort(wanted.begin(), wanted.end());
        if (descending) std::reverse(wanted.begin(), wanted.end());
        EXPECT_EQ(got, wanted) << dim;
      });
    }
  }
}

TEST(Sort, NaNIsTheGreatest) {
  Graph graph;
  const Tensor x = Line(graph, {1, kNan, -kInfinity, kInfinity, 0});
  EXPECT_THAT(DataOf(ArgSort(x, "sample")), ElementsAre(2, 4, 0, 3, 1));
  EXPECT_THAT(DataOf(ArgSort(x, "sample", {.descending = true})),
              ElementsAre(1, 3, 0, 4, 2));
}

TEST(ArgSort, IsStableInBothOrders) {
  Graph graph;
  const Tensor x = Line(graph, {2, 1, 2, 1, 2}, kInt32);
  const Tensor order = ArgSort(x, "sample");
  EXPECT_EQ(order.dtype(), kInt32);
  EXPECT_THAT(DataOf(order), ElementsAre(1, 3, 0, 2, 4));
  EXPECT_THAT(DataOf(ArgSort(x, "sample", {.descending = true})),
              ElementsAre(0, 2, 4, 1, 3));
  EXPECT_THAT(DataOf(Sort(x, "sample")), ElementsAre(1, 1, 2, 2, 2));
}

TEST(Sort, ExtremesOfIntegersKeepTheirOrder) {
  Graph graph;
  const Tensor x = Line(graph, {0, -2147483648.0, 2147483647, -1}, kInt32);
  EXPECT_THAT(DataOf(Sort(x, "sample")),
              ElementsAre(-2147483648.0, -1, 0, 2147483647));
}

TEST(NthLargest, CountsEqualElementsOneByOne) {
  Graph graph;
  const Tensor x = Line(graph, {3, 5, 1, 5, 2});
  std::vector<double> largest, smallest;
  for (int64_t n = 0; n < 5; ++n) {
    const Tensor y = NthLargest(x, "sample", n);
    EXPECT_EQ(y.shape(), Shape());
    largest.push_back(DataOf(y)[0]);
    smallest.push_back(DataOf(NthSmallest(x, "sample", n))[0]);
  }
  EXPECT_THAT(largest, ElementsAre(5, 5, 3, 2, 1));
  EXPECT_THAT(smallest, ElementsAre(1, 2, 3, 5, 5));
}

TEST(SortGradient, GoesToWhereTheElementWas) {
  ExpectSecondGradients(
      {Numbers({batch, sample}, 5)}, [](Graph&, const std::vector<Tensor>& xs) {
        return Square(Sort(xs[0], "sample")) * NthLargest(xs[0], "batch", 1);
      });
  Graph graph;
  const Tensor x = Line(graph, {4, 1, 2});
  const Tensor order = Cast(ArgSort(x, "sample"), kFloat32);
  EXPECT_FALSE(Gradients(order, {x})[0].valid());
}

TEST(SortErrors, NameTheDimensionAndTheRank) {
  for (const char* what : {"sort", "argsort"}) {
    ExpectError(
        [&](Graph& g) {
          const Tensor x = Input(g, "x", kFloat32, {batch, sample});
          const bool sort = what == std::string("sort");
          const Tensor y = sort ? Sort(x, "smaple") : ArgSort(x, "smaple");
          EXPECT_EQ(y.shape(), x.shape());
        },
        {"\"x\" has no dimension \"smaple\"", "did you mean \"sample\"?",
         what});
  }
  ExpectError([](Graph& g) { Sort(Input(g, "x", kBool, {sample}), "sample"); },
              {"takes a float or integer dtype, not bool"});
  for (const int64_t n : {-1, 7}) {
    ExpectError(
        [n](Graph& g) {
          const Tensor x = Input(g, "x", kFloat32, {batch, sample});
          EXPECT_EQ(NthSmallest(x, "sample", n).shape(), Shape({batch}));
        },
        {absl::StrCat("rank ", n, " is outside dimension \"sample\" of \"x\", ",
                      "which is 7 (nth_smallest")});
  }
  EXPECT_FALSE(Sort({}, "sample").valid());
  EXPECT_FALSE(NthLargest({}, "sample", 0).valid());
}

}  // namespace
}  // namespace mtf
