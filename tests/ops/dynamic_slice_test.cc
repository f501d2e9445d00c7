// SPDX-License-Identifier: Apache-2.0
#include "ops/dynamic_slice.h"

#include "ops/reshape.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension batch{"batch", 2}, length{"length", 5}, model{"model", 3};

// An index for each row of the batch, or one for all.
const std::vector<double> kPerRow = {3, 1};

Tensor IndexOf(Graph& graph, bool per_row, DType dtype = kInt32) {
  return per_row ? Constant(graph, kPerRow, dtype, {batch})
                 : Constant(graph, 2, dtype, {});
}

int64_t FirstRow(bool per_row, const ElementIndex& at) {
  return per_row ? static_cast<int64_t>(kPerRow[at.at("batch")]) : 2;
}

TEST(DynamicSlice, ReadsRowsUnderAnyName) {
  const OracleTensor x = Numbers({batch, length, model}, 1);
  for (const bool per_row : {false, true}) {
    for (const std::string rows : {"length", "now"}) {
      Graph graph;
      const Tensor y = DynamicSlice(ConstantOf(graph, x), "length",
                                    IndexOf(graph, per_row), {rows, 2});
      ASSERT_OK(graph.status());
      EXPECT_EQ(y.shape(), Shape({batch, {rows, 2}, model}));
      ExpectElements(Fetch(y), [&](const ElementIndex& at) {
        ElementIndex from = at;
        from["length"] = FirstRow(per_row, at) + at.at(rows);
        return At(x, from);
      });
    }
  }
}

TEST(DynamicSlice, WorksForAnyDTypeAndSize) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 0, 1, 1}, kBool, {{"n", 4}});
  const Tensor two = Constant(graph, 2, kInt64, {});
  EXPECT_THAT(DataOf(DynamicSlice(x, "n", two, 2)), ElementsAre(1, 1));
  EXPECT_THAT(DataOf(DynamicSlice(x, "n", Zeros(graph, kInt32, {}), 4)),
              ElementsAre(1, 0, 1, 1));
}

TEST(UpdateSlice, ReplacesRows) {
  const OracleTensor x = Numbers({batch, length, model}, 1);
  for (const bool per_row : {false, true}) {
    for (const std::string rows : {"length", "now"}) {
      // The dimensions of an update may be in any order.
      const OracleTensor update = Numbers({model, {rows, 2}, batch}, 2);
      Graph graph;
      const Tensor y =
          UpdateSlice(ConstantOf(graph, x), ConstantOf(graph, update), "length",
                      IndexOf(graph, per_row, kInt64));
      ASSERT_OK(graph.status());
      EXPECT_EQ(y.shape(), x.shape);
      ExpectElements(Fetch(y), [&](const ElementIndex& at) {
        ElementIndex from = at;
        from[rows] = at.at("length") - FirstRow(per_row, at);
        return from[rows] == 0 || from[rows] == 1 ? At(update, from)
                                                  : At(x, at);
      });
    }
  }
}

TEST(UpdateSlice, WithoutADimensionOfRowsReplacesOne) {
  const OracleTensor x = Numbers({length, batch}, 1);
  const OracleTensor update = Numbers({batch}, 2);
  Graph graph;
  const Tensor y = UpdateSlice(ConstantOf(graph, x), ConstantOf(graph, update),
                               "length", IndexOf(graph, /*per_row=*/true));
  ExpectElements(Fetch(y), [&](const ElementIndex& at) {
    return At(at.at("length") == FirstRow(true, at) ? update : x, at);
  });
}

TEST(UpdateSlice, ANumberTakesTheDTypeOfTheValue) {
  Graph graph;
  const Tensor x = Constant(graph, {1, 2, 3}, kInt32, {{"n", 3}});
  const Tensor y =
      UpdateSlice(x, Constant(graph, 7), "n", Constant(graph, 1, kInt32, {}));
  EXPECT_THAT(DataOf(y), ElementsAre(1, 7, 3));
}

TEST(DynamicSliceGradient, OfEveryArrangement) {
  struct Case {
    Shape value, rows;
    bool per_row;
  };
  for (const Case& c : std::vector<Case>{
           {{batch, length, model}, {batch, {"length", 2}, model}, true},
           {{batch, length, model}, {batch, {"now", 2}, model}, false},
           {{length, batch}, {batch}, true},
           {{length}, {{"length", 3}}, false},
           {{length}, {}, false}}) {
    SCOPED_TRACE(c.value.ToString());
    ExpectSecondGradients({Numbers(c.value, 1), Numbers(c.rows, 2)},
                          [&](Graph& graph, const auto& xs) {
                            return UpdateSlice(xs[0], xs[1], "length",
                                               IndexOf(graph, c.per_row));
                          });
    if (c.rows.rank() != c.value.rank()) continue;
    const Dimension rows =
        c.rows[c.rows.Find("now") >= 0 ? c.rows.Find("now")
                                       : c.rows.Find("length")];
    ExpectSecondGradients(
        {Numbers(c.value, 1)}, [&](Graph& graph, const auto& xs) {
          return DynamicSlice(xs[0], "length", IndexOf(graph, c.per_row), rows);
        });
  }
}

TEST(DynamicSliceGradient, OfTheUpdateIsOnlyItsRows) {
  Graph graph;
  const Tensor x = Ones(graph, kFloat32, {length});
  const Tensor update = Ones(graph, kFloat32, {{"now", 2}});
  const Tensor y =
      UpdateSlice(x, update, "length", Constant(graph, 1, kInt32, {}));
  const Tensor dy = Constant(graph, {1, 2, 3, 4, 5}, kFloat32, {length});
  const std::vector<Tensor> gradients = Gradients(y, {x, update}, dy);
  EXPECT_THAT(DataOf(gradients[0]), ElementsAre(1, 0, 0, 4, 5));
  EXPECT_THAT(DataOf(gradients[1]), ElementsAre(2, 3));
  EXPECT_EQ(gradients[1].operation()->kind(), "dynamic_slice");
}

TEST(DynamicSliceOutOfRange, StatesTheRowsAndTheLine) {
  Graph graph;
  const Tensor x = Zeros(graph, kFloat32, {batch, length});
  const Tensor position = Input(graph, "position", kInt32, {batch});
  std::string here;
  Tensor y;
  {
    Scope scope(graph, "decoder");
    // clang-format off
    here = MTF_HERE; y = DynamicSlice(x, "length", position, 2);
    // clang-format on
  }
  const auto run = [&](std::vector<int32_t> at, Tensor fetch) {
    return Interpret(graph, {{"position", HostTensor::Of(Shape({batch}), at)}},
                     {fetch});
  };
  EXPECT_OK(run({3, 0}, y));
  EXPECT_THAT(
      run({3, 4}, y),
      StatusIs(absl::StatusCode::kOutOfRange,
               absl::StrCat("index 4 at [batch=1] of \"position\" is outside "
                            "[0, 3]: 2 rows of dimension \"length\" of size 5 "
                            "begin there (\"decoder/dynamic_slice\", ",
                            here)));
  const Tensor update =
      UpdateSlice(x, Zeros(graph, kFloat32, {batch}), "length", position);
  EXPECT_THAT(run({-1, 5}, update),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("index -1 at [batch=0] of \"position\" is "
                                 "outside [0, 4]: 1 row of dimension "
                                 "\"length\" of size 5 begins there "
                                 "(\"update_slice\", dynamic_slice_test.cc")));
}

TEST(DynamicSliceErrors, OfTheIndex) {
  const auto slice = [](Shape x, Shape index, DType dtype, const char* dim,
                        Dimension rows) {
    return [=](Graph& g) {
      DynamicSlice(Input(g, "x", kFloat32, x), dim,
                   Input(g, "index", dtype, index), rows);
    };
  };
  const Dimension two{"length", 2};
  ExpectError(slice({length}, {}, kInt32, "lenght", {"lenght", 2}),
              {"\"x\" has no dimension \"lenght\" (dynamic_slice, ",
               "did you mean \"length\"?"});
  ExpectError(slice({length}, {}, kFloat32, "length", two),
              {"\"index\" are f32, not i32 or i64"});
  ExpectError(slice({length}, {length}, kInt32, "length", two),
              {"has the dimension \"length\" that it indexes", "Gather()"});
  ExpectError(slice({length}, {batch}, kInt32, "length", two),
              {"has the dimension \"batch\", which \"x\" lacks", "Gather()"});
  ExpectError(slice({length, batch}, {{"batch", 3}}, kInt32, "length", two),
              {"dimension \"batch\" is 2 in \"x\" but 3 in \"index\""});
  ExpectError(slice({length}, {}, kInt32, "length", {"length", 6}),
              {"6 rows exceed dimension \"length\" of \"x\", which is 5"});
  ExpectError(slice({length, model}, {}, kInt32, "length", {"model", 2}),
              {"\"x\" already has a dimension \"model\""});
  ExpectError(slice({length}, {}, kInt32, "length", {"length", -1}), {"-1"});
  ExpectError(
      [](Graph& g) {
        DynamicSlice(Ones(g, kFloat32, {length}), "length", Tensor(), 1);
      },
      {"input 1 is an empty Tensor"});
  EXPECT_FALSE(DynamicSlice(Tensor(), "length", Tensor(), 1).valid());
}

TEST(DynamicSliceErrors, OfTheUpdate) {
  const auto update = [](Shape rows, DType dtype) {
    return [=](Graph& g) {
      UpdateSlice(Input(g, "x", kFloat32, {batch, length, model}),
                  Input(g, "update", dtype, rows), "length",
                  Input(g, "index", kInt32, {batch}));
    };
  };
  ExpectError(update({batch, model}, kBFloat16), {"f32", "bf16"});
  ExpectError(
      update({batch, {"length", 2}}, kFloat32),
      {"\"update\" does not have the dimensions [batch=2, model=3] of "
       "\"x\" in addition to its rows along \"length\" (update_slice, "});
  ExpectError(update({batch, model, {"a", 1}, {"b", 1}}, kFloat32),
              {"\"update\" does not have the dimensions"});
  ExpectError(update({batch, {"model", 2}}, kFloat32),
              {"\"update\" does not have the dimensions"});
  ExpectError(update({batch, {"now", 6}, model}, kFloat32),
              {"6 rows exceed dimension \"length\" of \"x\", which is 5"});
  EXPECT_FALSE(UpdateSlice(Tensor(), Tensor(), "n", Tensor()).valid());
}

TEST(StateVariable, IsNotTrainedAndBeginsWithZeros) {
  Graph graph;
  const Tensor cache = StateVariable(graph, "cache", kBFloat16, {length});
  const Tensor count = StateVariable(graph, "count", Ones(graph, kInt32, {}));
  ASSERT_OK(graph.status());
  for (const VariableInfo& info : graph.variables()) {
    EXPECT_EQ(info.kind, VariableKind::kState) << info.name;
    EXPECT_FALSE(info.trainable) << info.name;
  }
  EXPECT_EQ(cache.dtype(), kBFloat16);
  OracleVariables variables;
  ASSERT_OK(InitializeVariables(graph, 0, &variables));
  EXPECT_THAT(variables["cache"].data, ElementsAre(0, 0, 0, 0, 0));
  const Tensor next = Assign(count, count + 1.0);
  ASSERT_OK(Interpret(graph, {}, {next}, &variables));
  EXPECT_THAT(variables["count"].data, ElementsAre(2));
}

}  // namespace
}  // namespace mtf
