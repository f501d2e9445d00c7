// SPDX-License-Identifier: Apache-2.0
//
// Slice, pad, concat and shift: operations that move elements along one
// dimension.
#include "ops/concat.h"
#include "ops/pad.h"
#include "ops/shift.h"
#include "ops/slice.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

const Dimension a{"a", 2}, b{"b", 3};

Tensor Table(Graph& graph, DType dtype = kFloat32) {
  return Constant(graph, {1, 2, 3, 4, 5, 6}, dtype, {a, b});
}

TEST(Slice, TakesARange) {
  Graph graph;
  const Tensor y = Slice(Table(graph), "b", 1, 2);
  EXPECT_EQ(y.shape(), Shape({a, {"b", 2}}));
  EXPECT_THAT(DataOf(y), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(DataOf(Slice(Table(graph, kInt32), "a", 1, 1)),
              ElementsAre(4, 5, 6));
  EXPECT_THAT(DataOf(Slice(Table(graph), "b", 3, 0)), IsEmpty());
  EXPECT_THAT(DataOf(Slice(Table(graph), "b", 0, 3)),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Pad, AddsElementsAtBothEnds) {
  Graph graph;
  EXPECT_THAT(DataOf(Pad(Table(graph), "b", 1, 2)),
              ElementsAre(0, 1, 2, 3, 0, 0, 0, 4, 5, 6, 0, 0));
  const Tensor y = Pad(Table(graph, kInt32), "a", 0, 1, -7);
  EXPECT_EQ(y.shape(), Shape({{"a", 3}, b}));
  EXPECT_THAT(DataOf(y), ElementsAre(1, 2, 3, 4, 5, 6, -7, -7, -7));
}

TEST(Concat, JoinsDifferentSizesInAnyOrderOfDimensions) {
  Graph graph;
  const Tensor x = Table(graph);
  const Tensor y =
      Constant(graph, {10, 40, 20, 50}, kFloat32, {{"b", 2}, {"a", 2}});
  const Tensor z = Concat({x, y, x}, "b");
  EXPECT_EQ(z.shape(), Shape({a, {"b", 8}}));
  EXPECT_THAT(DataOf(z), ElementsAre(1, 2, 3, 10, 20, 1, 2, 3,  //
                                     4, 5, 6, 40, 50, 4, 5, 6));
}

TEST(Shift, EveryOffsetOfASmallDimension) {
  for (const bool wrap : {false, true}) {
    for (int64_t offset = -8; offset <= 8; ++offset) {
      SCOPED_TRACE(absl::StrCat("offset ", offset, wrap ? " wrap" : ""));
      Graph graph;
      const OracleTensor x = Numbers({a, b}, 1);
      ExpectElements(Fetch(Shift(ConstantOf(graph, x), "b", offset, wrap)),
                     [&](const ElementIndex& index) {
                       int64_t from = index.at("b") - offset;
                       if (wrap) from = ((from % 3) + 3) % 3;
                       if (from < 0 || from >= 3) return 0.0;
                       return At(x, {{"a", index.at("a")}, {"b", from}});
                     });
    }
  }
}

TEST(Shift, ExtremeOffsetsAndEmptyDimensions) {
  Graph graph;
  for (const int64_t offset : {INT64_MIN, INT64_MAX}) {
    EXPECT_THAT(DataOf(Shift(Table(graph), "b", offset, false)),
                ::testing::Each(0));
  }
  // 2^63 - 1 = 1 and -2^63 = 1 modulo 3.
  EXPECT_THAT(DataOf(Shift(Table(graph), "b", INT64_MAX, true)),
              ElementsAre(3, 1, 2, 6, 4, 5));
  EXPECT_THAT(DataOf(Shift(Table(graph), "b", INT64_MIN, true)),
              ElementsAre(3, 1, 2, 6, 4, 5));
  const Tensor none = Zeros(graph, kFloat32, {{"n", 0}});
  EXPECT_THAT(DataOf(Shift(none, "n", 1, true)), IsEmpty());
  EXPECT_THAT(DataOf(Shift(none, "n", 1, false)), IsEmpty());
}

TEST(MovementGradients, OfBothOrders) {
  for (const Shape& shape :
       {Shape{a, b}, Shape{b, a}, Shape{{"b", 5}, {"a", 1}}}) {
    SCOPED_TRACE(shape.ToString());
    const int64_t n = shape.SizeOf("b");
    const auto expect = [&](const Builder& build) {
      ExpectSecondGradients({Numbers(shape, 5)}, build);
    };
    for (int64_t begin = 0; begin < n; ++begin) {
      expect([&](Graph&, const std::vector<Tensor>& xs) {
        return Slice(xs[0], "b", begin, n - begin) *
               Slice(xs[0], "b", 0, n - begin);
      });
    }
    expect([&](Graph&, const std::vector<Tensor>& xs) {
      return Pad(xs[0], "b", 2, 1, 1.5);
    });
    expect([&](Graph&, const std::vector<Tensor>& xs) {
      return Concat({xs[0], Exp(xs[0]), xs[0]}, "b");
    });
    for (const int64_t offset : {-7, -1, 0, 1, 2, 7}) {
      expect([&](Graph&, const std::vector<Tensor>& xs) {
        return Shift(xs[0], "b", offset, false) * xs[0];
      });
      expect([&](Graph&, const std::vector<Tensor>& xs) {
        return Shift(xs[0], "b", offset, true) * xs[0];
      });
    }
  }
}

TEST(MovementGradients, OfConcatInTwoOrders) {
  ExpectGradients({Numbers({a, b}, 1), Numbers({{"b", 2}, a}, 2)},
                  [](Graph&, const std::vector<Tensor>& xs) {
                    return Concat({xs[0], xs[1]}, "b");
                  });
}

TEST(MovementErrors, Slice) {
  const auto slice = [](const char* dim, int64_t begin, int64_t size) {
    return [=](Graph& g) {
      Slice(Input(g, "x", kFloat32, {a, b}), dim, begin, size);
    };
  };
  ExpectError(slice("q", 0, 1), {"\"x\" has no dimension \"q\" (slice, "});
  ExpectError(slice("b", 2, 2),
              {"2 elements from 2 exceed dimension \"b\" of \"x\", which is 3 "
               "(slice, "});
  ExpectError(slice("b", -1, 2), {"2 elements from -1 exceed"});
  ExpectError(slice("b", 0, -1), {"-1 elements from 0 exceed"});
  ExpectError(slice("b", INT64_MAX, INT64_MAX), {"exceed dimension \"b\""});
  EXPECT_FALSE(Slice(Tensor(), "b", 0, 1).valid());
}

TEST(MovementErrors, Pad) {
  ExpectError([](Graph& g) { Pad(Ones(g, kFloat32, {a}), "q", 1, 1); },
              {"no dimension \"q\" (pad, "});
  ExpectError(
      [](Graph& g) { Pad(Ones(g, kFloat32, {a}), "a", -1, 1); },
      {"padding of dimension \"a\" of ", "\" is -1 before and 1 after; "});
  ExpectError([](Graph& g) { Pad(Ones(g, kFloat32, {a}), "a", 0, INT64_MAX); },
              {"; each must be from 0 to 2^60 (pad, "});
  ExpectError([](Graph& g) { Pad(Ones(g, kInt32, {a}), "a", 0, 1, 0.5); },
              {"the number 0.5 is not representable in dtype i32 (pad, "});
  EXPECT_FALSE(Pad(Tensor(), "b", 0, 1).valid());
}

TEST(MovementErrors, Concat) {
  const auto concat = [](Shape other, DType dtype, const char* dim) {
    return [=](Graph& g) {
      Concat({Input(g, "x", kFloat32, {a, b}), Input(g, "y", dtype, other)},
             dim);
    };
  };
  ExpectError(concat({b, a}, kFloat32, "q"), {"no dimension \"q\" (concat, "});
  ExpectError(concat({b, a}, kInt32, "a"), {"\"x\" is f32 but \"y\" is i32"});
  ExpectError(concat({{"b", 4}, {"a", 1}}, kFloat32, "a"),
              {"dimension \"b\" is 3 in \"x\" but 4 in \"y\"", "f32[b=4, a=1]",
               "help"});
  ExpectError(
      concat({a, b, {"c", 1}}, kFloat32, "a"),
      {"\"x\" has no dimension \"c\", but \"y\" has it", "Broadcast()"});
  ExpectError(concat({a}, kFloat32, "a"),
              {"\"y\" has no dimension \"b\", but \"x\" has it"});
  ExpectError(
      [](Graph& g) {
        Concat({Ones(g, kFloat32, {a}), Tensor()}, "a");
      },
      {"input 1 is an empty Tensor"});
  EXPECT_FALSE(Concat({}, "a").valid());
  // Sizes that add up to more than a shape, or 64 bits, can hold.
  for (const size_t count : {2, 3, 9}) {
    ExpectError(
        [&](Graph& g) {
          const Tensor x = Input(g, "x", kFloat32, {{"a", int64_t{1} << 62}});
          Concat(std::vector<Tensor>(count, x), "a");
        },
        {"has more than 2^62 elements (concat, "});
  }
}

TEST(MovementErrors, Shift) {
  ExpectError([](Graph& g) { Shift(Ones(g, kFloat32, {a}), "q", 1, true); },
              {"no dimension \"q\" (shift, "});
  EXPECT_FALSE(Shift(Tensor(), "b", 1, true).valid());
}

}  // namespace
}  // namespace mtf
