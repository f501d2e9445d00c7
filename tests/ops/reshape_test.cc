// SPDX-License-Identifier: Apache-2.0
#include "ops/reshape.h"

#include "ops/random.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::Pair;

const Dimension a{"a", 2}, b{"b", 3}, c{"c", 4};

TEST(Reshape, KeepsTheRowMajorOrder) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3, 4, 5, 6}, kFloat32, {a, b});
  const Tensor y = Reshape(x, {{"d", 3}, {"e", 2}});
  EXPECT_EQ(y.shape(), Shape({{"d", 3}, {"e", 2}}));
  EXPECT_THAT(DataOf(y), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(DataOf(Reshape(Ones(graph, kBool, {}), {{"one", 1}})),
              ElementsAre(1));
}

TEST(Rename, ChangesNothingElse) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3, 4, 5, 6}, kFloat32, {a, b});
  const Tensor y = Rename(x, "a", "z");
  EXPECT_EQ(y.shape(), Shape({{"z", 2}, b}));
  EXPECT_THAT(DataOf(y), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(SameTensor(Rename(x, "a", "a"), x));
}

TEST(MergeDimensions, OfAdjacentDimensions) {
  Graph graph;
  const Tensor x = ConstantOf(graph, Numbers({a, b, c}, 1));
  const Tensor y = MergeDimensions(x, {"b", "c"}, "bc");
  EXPECT_EQ(y.shape(), Shape({a, {"bc", 12}}));
  EXPECT_THAT(DataOf(y), ElementsAreArray(DataOf(x)));
}

TEST(MergeDimensions, OfOtherDimensionsInTheOrderGiven) {
  Graph graph;
  const OracleTensor x = Numbers({a, b, c}, 1);
  const OracleTensor y =
      Fetch(MergeDimensions(ConstantOf(graph, x), {"c", "a"}, "ca"));
  EXPECT_EQ(y.shape, Shape({b, {"ca", 8}}));
  ExpectElements(y, [&](const ElementIndex& at) {
    return At(
        x, {{"a", at.at("ca") % 2}, {"b", at.at("b")}, {"c", at.at("ca") / 2}});
  });
}

TEST(MergeDimensions, MayTakeTheNameOfOneOfThem) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {a, b, c});
  EXPECT_EQ(MergeDimensions(x, {"a", "b"}, "a").shape(), Shape({{"a", 6}, c}));
}

TEST(SplitDimension, IsTheInverseOfMerging) {
  Graph graph;
  const Tensor x = ConstantOf(graph, Numbers({{"ab", 6}, c}, 1));
  const Tensor y = SplitDimension(x, "ab", {a, b});
  EXPECT_EQ(y.shape(), Shape({a, b, c}));
  EXPECT_THAT(DataOf(MergeDimensions(y, {"a", "b"}, "ab")),
              ElementsAreArray(DataOf(x)));
  EXPECT_EQ(SplitDimension(x, "ab", {{"ab", 2}, b}).shape(),
            Shape({{"ab", 2}, b, c}));
  EXPECT_EQ(
      SplitDimension(Ones(graph, kInt32, {{"one", 1}}), "one", {}).shape(),
      Shape());
}

TEST(Broadcast, RepeatsAlongNewDimensions) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2}, kInt32, {a});
  EXPECT_THAT(DataOf(Broadcast(x, {b, a})), ElementsAre(1, 2, 1, 2, 1, 2));
  EXPECT_THAT(DataOf(Broadcast(x, {a, b})), ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_TRUE(SameTensor(Broadcast(x, {a}), x));
  const Tensor flag = Constant(graph, {1, 0}, kBool, {a});
  EXPECT_THAT(DataOf(Broadcast(flag, {a, {"d", 2}})), ElementsAre(1, 1, 0, 0));
}

TEST(Transpose, ChangesTheOrderOnTheHost) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3, 4, 5, 6}, kFloat32, {a, b});
  EXPECT_THAT(DataOf(Transpose(x, {b, a})), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_TRUE(SameTensor(Transpose(x, {a, b}), x));
}

TEST(ReshapeGradient, OfEveryKind) {
  const std::vector<Builder> builders = {
      [](Graph&, const std::vector<Tensor>& x) {
        return Reshape(x[0], {{"d", 6}, {"e", 4}});
      },
      [](Graph&, const std::vector<Tensor>& x) {
        return Rename(x[0], "b", "z") * x[0];
      },
      [](Graph&, const std::vector<Tensor>& x) {
        return MergeDimensions(x[0], {"c", "a"}, "ca");
      },
      [](Graph&, const std::vector<Tensor>& x) {
        return SplitDimension(x[0], "c", {{"c1", 2}, {"c2", 2}});
      },
      [](Graph&, const std::vector<Tensor>& x) {
        return Broadcast(x[0], {c, {"n", 2}, a, b});
      },
      [](Graph&, const std::vector<Tensor>& x) {
        return Transpose(x[0], {c, a, b});
      },
  };
  for (size_t i = 0; i < builders.size(); ++i) {
    for (const Shape& shape : {Shape{a, b, c}, Shape{c, b, a}}) {
      SCOPED_TRACE(absl::StrCat(i, " of [", shape.ToString(), "]"));
      ExpectSecondGradients({Numbers(shape, 3)}, builders[i]);
    }
  }
}

TEST(ReshapeGradient, OfADyInAnotherOrder) {
  // The gradient of the sum has the order of `w`, not that of the reshape.
  ExpectGradients({Numbers({a, b}, 1), Numbers({{"e", 3}, {"d", 2}}, 2)},
                  [](Graph&, const std::vector<Tensor>& xs) {
                    return xs[1] * Reshape(xs[0], {{"d", 2}, {"e", 3}});
                  });
}

auto TiesOf(Shape from, Shape to) {
  Graph graph;
  return Reshape(Zeros(graph, kFloat32, from), to)
      .operation()
      ->TiedDimensions();
}

TEST(TiedDimensions, AreTheRenamedOnes) {
  EXPECT_THAT(TiesOf({a, b}, {a, {"z", 3}}), ElementsAre(Pair("b", "z")));
  EXPECT_THAT(TiesOf({a, b}, {{"y", 2}, {"z", 3}}),
              ElementsAre(Pair("a", "y"), Pair("b", "z")));
  EXPECT_THAT(TiesOf({{"p", 4}, {"q", 4}}, {{"q", 4}, {"p", 4}}),
              ElementsAre(Pair("p", "q"), Pair("q", "p")));
}

TEST(TiedDimensions, AreNeitherKeptNorMergedNorSplit) {
  EXPECT_THAT(TiesOf({a, b, c}, {a, b, c}), IsEmpty());
  EXPECT_THAT(TiesOf({a, b, c}, {{"ab", 6}, {"z", 4}}),
              ElementsAre(Pair("c", "z")));
  EXPECT_THAT(TiesOf({{"x", 4}, b}, {{"x1", 2}, {"x2", 2}, {"z", 3}}),
              ElementsAre(Pair("b", "z")));
  EXPECT_THAT(TiesOf({a, b}, {{"d", 3}, {"e", 2}}), IsEmpty());
}

TEST(TiedDimensions, LeaveOutDimensionsOfSizeOne) {
  const Dimension one{"one", 1}, uno{"uno", 1};
  EXPECT_THAT(TiesOf({one, c}, {c}), IsEmpty());
  EXPECT_THAT(TiesOf({c}, {c, one}), IsEmpty());
  EXPECT_THAT(TiesOf({one, c}, {c, one}), IsEmpty());
  EXPECT_THAT(TiesOf({one, uno}, {uno, one}), IsEmpty());
  EXPECT_THAT(TiesOf({c, one}, {one, {"z", 4}}), ElementsAre(Pair("c", "z")));
  EXPECT_THAT(TiesOf({one, c}, {uno, c}), ElementsAre(Pair("one", "uno")));
  EXPECT_THAT(TiesOf({one}, {}), IsEmpty());
}

TEST(TiedDimensions, OfEmptyTensors) {
  const Dimension none{"none", 0};
  EXPECT_THAT(TiesOf({a, none}, {{"y", 2}, none}), ElementsAre(Pair("a", "y")));
  EXPECT_THAT(TiesOf({a, none}, {none, b}), IsEmpty());
}

TEST(ReshapeErrors, OtherNumberOfElements) {
  ExpectError(
      [](Graph& g) {
        Reshape(Input(g, "x", kFloat32, {a, b}), {c});
      },
      {"[c=4] has 4 elements but \"x\" has 6 (reshape, ", "f32[a=2, b=3]"});
}

TEST(ReshapeErrors, RenameToAnExistingName) {
  ExpectError(
      [](Graph& g) {
        Rename(Input(g, "x", kFloat32, {a, b}), "a", "b");
      },
      {"\"x\" already has a dimension \"b\" (rename, "});
}

TEST(ReshapeErrors, RenameFromAMissingName) {
  ExpectError([](Graph& g) { Rename(Ones(g, kFloat32, {a}), "q", "b"); },
              {"\"constant\" has no dimension \"q\" (rename, "});
  ExpectError([](Graph& g) { Rename(Ones(g, kFloat32, {a}), "q", "q"); },
              {"\"constant\" has no dimension \"q\" (rename, "});
}

TEST(ReshapeErrors, UnprintableNames) {
  ExpectError([](Graph& g) { Rename(Ones(g, kFloat32, {a}), "a", "a b\n"); },
              {"dimension name \"a b\\n\""});
}

TEST(ReshapeErrors, Merge) {
  const auto merge = [](std::vector<std::string> names, const char* to) {
    return [=](Graph& g) {
      MergeDimensions(Ones(g, kFloat32, {a, b, c}), names, to);
    };
  };
  ExpectError(merge({}, "z"), {"no dimensions to merge into \"z\" (merge, "});
  ExpectError(merge({"a", "q"}, "z"), {"no dimension \"q\""});
  ExpectError(merge({"a", "a"}, "z"), {"dimension \"a\" is given twice"});
  ExpectError(merge({"a", "b"}, "c"), {"already has a dimension \"c\""});
}

TEST(ReshapeErrors, Split) {
  const auto split = [](const char* name, std::vector<Dimension> parts) {
    return [=](Graph& g) {
      SplitDimension(Ones(g, kFloat32, {a, b, c}), name, parts);
    };
  };
  ExpectError(split("q", {}), {"no dimension \"q\" (split, "});
  ExpectError(split("c", {{"x", 2}, {"y", 3}}),
              {"the sizes of [x=2, y=3] multiply to 6 but dimension \"c\" of "
               "\"constant\" is 4 (split, "});
  ExpectError(split("c", {a, {"y", 2}}), {"already has a dimension \"a\""});
  ExpectError(split("c", {{"y", 2}, {"y", 2}}), {"\"y\" occurs twice"});
  ExpectError(split("c", {{"x", -2}, {"y", -2}}), {"negative size -2"});
}

TEST(ReshapeErrors, BroadcastAndTranspose) {
  ExpectError(
      [](Graph& g) {
        Broadcast(Ones(g, kFloat32, {a, b}), {b, c});
      },
      {"dimension \"a\" of \"constant\" is not in [b=3, c=4]", "(broadcast, "});
  ExpectError(
      [](Graph& g) {
        Broadcast(Ones(g, kFloat32, {a}), {{"a", 3}});
      },
      {"dimension \"a\" is 2 in \"constant\" but 3 in the output"});
  ExpectError(
      [](Graph& g) {
        Transpose(Ones(g, kFloat32, {a}), {a, b});
      },
      {"[a=2, b=3] has dimensions that \"constant\" lacks", "(transpose, "});
}

TEST(ReshapeErrors, EmptyTensorsStayEmpty) {
  EXPECT_FALSE(Reshape(Tensor(), {a}).valid());
  EXPECT_FALSE(Rename(Tensor(), "a", "b").valid());
  EXPECT_FALSE(MergeDimensions(Tensor(), {"a"}, "b").valid());
  EXPECT_FALSE(SplitDimension(Tensor(), "a", {b}).valid());
  EXPECT_FALSE(Broadcast(Tensor(), {a}).valid());
  EXPECT_FALSE(Transpose(Tensor(), {a}).valid());
}

}  // namespace
}  // namespace mtf
