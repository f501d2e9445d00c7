// SPDX-License-Identifier: Apache-2.0
#include "ops/split.h"

#include "ops/concat.h"
#include "ops/stack.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension a{"a", 2}, b{"b", 6};

Tensor Table(Graph& graph, DType dtype = kFloat32) {
  return Constant(graph, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, dtype, {a, b});
}

TEST(Split, IntoGivenSizes) {
  Graph graph;
  const std::vector<Tensor> parts =
      Split(Table(graph, kInt32), "b", std::vector<int64_t>{1, 0, 3, 2});
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[2].shape(), Shape({a, {"b", 3}}));
  EXPECT_EQ(parts[2].dtype(), kInt32);
  EXPECT_THAT(DataOf(parts[0]), ElementsAre(0, 6));
  EXPECT_THAT(DataOf(parts[1]), ElementsAre());
  EXPECT_THAT(DataOf(parts[2]), ElementsAre(1, 2, 3, 7, 8, 9));
  EXPECT_THAT(DataOf(parts[3]), ElementsAre(4, 5, 10, 11));
  EXPECT_EQ(parts[3].name(), "split.part_3");
}

TEST(Split, IntoEqualParts) {
  Graph graph;
  const std::vector<Tensor> parts = Split(Table(graph), "b", 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_THAT(DataOf(parts[1]), ElementsAre(2, 3, 8, 9));
  EXPECT_EQ(DataOf(Concat(parts, "b")), DataOf(Table(graph)));
  EXPECT_EQ(DataOf(Split(Table(graph), "a", 1)[0]), DataOf(Table(graph)));
}

TEST(Unstack, IsTheInverseOfStack) {
  Graph graph;
  const std::vector<Tensor> columns = Unstack(Table(graph), "b");
  ASSERT_EQ(columns.size(), 6u);
  EXPECT_EQ(columns[4].shape(), Shape({a}));
  EXPECT_THAT(DataOf(columns[4]), ElementsAre(4, 10));
  EXPECT_EQ(DataOf(Stack(Unstack(Table(graph), "a"), "a")),
            DataOf(Table(graph)));
  EXPECT_TRUE(Unstack(Zeros(graph, kFloat32, {{"b", 0}}), "b").empty());
}

// More results than a word has bits.
TEST(Unstack, ManyParts) {
  Graph graph;
  std::vector<double> numbers(70);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  const std::vector<Tensor> parts =
      Unstack(Constant(graph, numbers, kFloat32, {{"time", 70}}), "time");
  EXPECT_THAT(DataOf(parts[69]), ElementsAre(69));
  EXPECT_THAT(DataOf(parts[31] + parts[32]), ElementsAre(63));
}

TEST(SplitGradient, IsConcat) {
  ExpectSecondGradients({Numbers({a, b}, 1)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          const auto parts = Split(xs[0], "b", 3);
                          return parts[0] * Square(parts[2]);
                        });
  ExpectSecondGradients({Numbers({a, b}, 2)},
                        [](Graph&, const std::vector<Tensor>& xs) {
                          const auto rows = Unstack(xs[0], "a");
                          return rows[0] * Sin(rows[1]);
                        });
  Graph graph;
  const Tensor x = Table(graph);
  const Tensor unread = Split(x, "b", 2)[1];
  EXPECT_THAT(DataOf(Gradients(unread, {x})[0]),
              ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1));
}

TEST(SplitErrors, NameTheSizes) {
  const auto split = [](std::vector<int64_t> sizes) {
    return [=](Graph& g) {
      EXPECT_EQ(Split(Input(g, "x", kFloat32, {a, b}), "b", sizes).size(),
                sizes.size());
    };
  };
  ExpectError(split({2, 3}), {"the sizes [2, 3] do not add up to dimension "
                              "\"b\" of \"x\", which is 6 (split"});
  ExpectError(split({4, 4}), {"the sizes [4, 4] do not add up"});
  ExpectError(split({}), {"the sizes [] do not add up"});
  ExpectError(split({7, -1}), {"do not add up"});
  ExpectError(split({-1, 7}),
              {"a part of dimension \"b\" of \"x\" has the negative size -1"});
  const int64_t huge = int64_t{1} << 62;
  ExpectError(split({huge, huge, huge, huge}), {"do not add up"});
  for (const int64_t parts : {4, 0, -3}) {
    ExpectError(
        [&](Graph& g) {
          Split(Input(g, "x", kFloat32, {a, b}), "b", parts);
        },
        {absl::StrCat("dimension \"b\" of \"x\", which is 6, does not split ",
                      "into ", parts, " equal parts"),
         "give the size of each part"});
  }
  ExpectError([](Graph& g) { Split(Input(g, "x", kFloat32, {a}), "b", 2); },
              {"\"x\" has no dimension \"b\"", "split"});
  ExpectError([](Graph& g) { Unstack(Input(g, "x", kFloat32, {a}), "b"); },
              {"\"x\" has no dimension \"b\"", "unstack"});
  EXPECT_EQ(Split({}, "b", 2).size(), 2u);
  EXPECT_FALSE(Split({}, "b", 2)[0].valid());
  EXPECT_TRUE(Unstack({}, "b").empty());
}

}  // namespace
}  // namespace mtf
