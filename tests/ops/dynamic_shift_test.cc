// SPDX-License-Identifier: Apache-2.0
#include "ops/dynamic_shift.h"

#include "ops/shift.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension batch{"batch", 3}, length{"length", 4}, model{"model", 2};

TEST(DynamicShift, EqualsShiftByTheOffset) {
  const OracleTensor x = Numbers({batch, length, model}, 3);
  for (const bool wrap : {false, true}) {
    for (int64_t offset = -9; offset <= 9; ++offset) {
      Graph graph;
      const Tensor input = ConstantOf(graph, x);
      const Tensor y = DynamicShift(input, "length",
                                    Constant(graph, offset, kInt32, {}), wrap);
      EXPECT_EQ(y.shape(), x.shape);
      EXPECT_EQ(DataOf(y), DataOf(Shift(input, "length", offset, wrap)))
          << offset << wrap;
    }
  }
}

TEST(DynamicShift, OneOffsetPerRow) {
  const OracleTensor x = Numbers({length, batch, model}, 4);
  Graph graph;
  const std::vector<double> offsets = {1, -2, 5};
  const Tensor offset = Constant(graph, offsets, kInt64, {batch});
  for (const bool wrap : {false, true}) {
    const Tensor y = DynamicShift(ConstantOf(graph, x), "length", offset, wrap);
    ExpectElements(Fetch(y), [&](ElementIndex at) {
      int64_t from = at["length"] - static_cast<int64_t>(offsets[at["batch"]]);
      if (wrap) from = (from % 4 + 4) % 4;
      if (from < 0 || from >= length.size) return 0.0;
      at["length"] = from;
      return At(x, at);
    });
  }
}

TEST(DynamicShift, AnyDTypeAndSize) {
  Graph graph;
  const Tensor one = Constant(graph, 1, kInt32, {});
  const Tensor bools = Constant(graph, {1, 0, 0, 1}, kBool, {length});
  EXPECT_THAT(DataOf(DynamicShift(bools, "length", one, true)),
              ElementsAre(1, 1, 0, 0));
  const Tensor none = Zeros(graph, kFloat32, {{"length", 0}});
  EXPECT_EQ(DataOf(DynamicShift(none, "length", one, true)).size(), 0u);
}

TEST(DynamicShift, GradientIsShiftedBack) {
  for (const bool wrap : {false, true}) {
    ExpectSecondGradients(
        {Numbers({batch, length}, 5)},
        [&](Graph& graph, const std::vector<Tensor>& xs) {
          const Tensor offset = Constant(graph, {1, -3, 6}, kInt32, {batch});
          return Square(DynamicShift(xs[0], "length", offset, wrap)) * xs[0];
        });
  }
}

TEST(DynamicShiftErrors, NameTheOffset) {
  const auto shift = [](Shape shape, DType dtype, const char* dim) {
    return [=](Graph& g) {
      const Tensor x = Input(g, "x", kFloat32, {batch, length});
      const Tensor y =
          DynamicShift(x, dim, Input(g, "by", dtype, shape), false);
      EXPECT_EQ(y.shape(), x.shape());
    };
  };
  ExpectError(shift({length}, kInt32, "length"),
              {"the offset \"by\" has the dimension \"length\" that it shifts",
               "(dynamic_shift"});
  ExpectError(shift({model}, kInt32, "length"),
              {"the offset \"by\" has the dimension \"model\", which \"x\" "
               "lacks",
               "help"});
  ExpectError(shift({}, kFloat32, "length"), {"i32"});
  ExpectError(shift({{"batch", 4}}, kInt32, "length"),
              {"\"batch\" is 3 in \"x\" but 4 in \"by\""});
  ExpectError(shift({}, kInt32, "lenght"),
              {"\"x\" has no dimension \"lenght\""});
  ExpectError(
      [](Graph& g) {
        DynamicShift(Input(g, "x", kFloat32, {length}), "length", {}, false);
      },
      {"empty Tensor"});
  EXPECT_FALSE(DynamicShift({}, "length", {}, false).valid());
}

}  // namespace
}  // namespace mtf
