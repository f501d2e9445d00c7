// SPDX-License-Identifier: Apache-2.0
#include "ops/gather.h"

#include "ops/reshape.h"
#include "tests/ops/ops_test_util.h"

namespace mtf {
namespace {

using namespace mtf::testing;  // NOLINT

const Dimension vocab{"vocab", 5}, model{"model", 2}, batch{"batch", 2},
    length{"length", 3};

TEST(Gather, TakesRowsOfATable) {
  Graph graph;
  const Tensor table = Constant(graph, {0, 1, 10, 11, 20, 21, 30, 31, 40, 41},
                                kFloat32, {vocab, model});
  const Tensor indices =
      Constant(graph, {4, 0, 1, 1, 3, 2}, kInt32, {batch, length});
  const Tensor y = Gather(table, indices, "vocab");
  EXPECT_EQ(y.shape(), Shape({batch, length, model}));
  EXPECT_THAT(DataOf(y),
              ElementsAre(40, 41, 0, 1, 10, 11, 10, 11, 30, 31, 20, 21));
}

TEST(Gather, WorksAlongAnyDimensionOfAnyDType) {
  Graph graph;
  const Tensor table =
      Constant(graph, {1, 0, 1, 0, 0, 1}, kBool, {model, {"n", 3}});
  const Tensor index = Constant(graph, 2, kInt64, {});
  const Tensor y = Gather(table, index, "n");
  EXPECT_EQ(y.dtype(), kBool);
  EXPECT_EQ(y.shape(), Shape({model}));
  EXPECT_THAT(DataOf(y), ElementsAre(1, 1));
}

TEST(Gather, DimensionsInBothAreMatched) {
  Graph graph;
  const OracleTensor table = Numbers({batch, vocab, model}, 1);
  const std::vector<double> indices = {4, 0, 1, 1, 3, 2};
  const OracleTensor y =
      Fetch(Gather(ConstantOf(graph, table),
                   Constant(graph, indices, kInt32, {length, batch}), "vocab"));
  EXPECT_EQ(y.shape, Shape({length, batch, model}));
  ExpectElements(y, [&](const ElementIndex& index) {
    ElementIndex from = index;
    from["vocab"] = static_cast<int64_t>(
        indices[index.at("length") * 2 + index.at("batch")]);
    return At(table, from);
  });
}

TEST(ScatterAdd, SumsUpdatesByIndex) {
  Graph graph;
  const Tensor updates =
      Constant(graph, {1, 2, 3, 4, 5, 6}, kFloat32, {length, model});
  const Tensor indices = Constant(graph, {4, 1, 4}, kInt32, {length});
  EXPECT_THAT(DataOf(ScatterAdd(updates, indices, "vocab", {vocab, model})),
              ElementsAre(0, 0, 3, 4, 0, 0, 0, 0, 6, 8));
  EXPECT_THAT(DataOf(ScatterAdd(updates, indices, "vocab", {model, vocab})),
              ElementsAre(0, 3, 0, 0, 6, 0, 4, 0, 0, 8));
}

TEST(ScatterAdd, DimensionsInBothAreMatched) {
  Graph graph;
  const Tensor updates =
      Constant(graph, {1, 2, 3, 4, 5, 6}, kInt32, {batch, length});
  const Tensor indices =
      Constant(graph, {0, 0, 1, 2, 2, 2}, kInt32, {batch, length});
  EXPECT_THAT(DataOf(ScatterAdd(updates, indices, "n", {{"n", 3}, batch})),
              ElementsAre(3, 0, 3, 0, 0, 15));
}

TEST(GatherGradient, OfEveryArrangement) {
  struct Case {
    Shape table, indices;
  };
  for (const Case& c : std::vector<Case>{{{vocab, model}, {batch, length}},
                                         {{model, vocab}, {length}},
                                         {{vocab}, {}},
                                         {{batch, vocab, model}, {batch}},
                                         {{vocab, batch}, {length, batch}}}) {
    SCOPED_TRACE(c.table.ToString());
    ExpectSecondGradients(
        {Numbers(c.table, 1)}, [&](Graph& graph, const auto& xs) {
          OracleTensor indices = Numbers(c.indices, 2, 0, 5);
          for (double& i : indices.data) i = std::floor(i);
          indices.dtype = kInt32;
          return Gather(xs[0], ConstantOf(graph, indices), "vocab");
        });
    ExpectSecondGradients({Numbers(c.table, 1), Numbers(c.table, 3)},
                          [&](Graph& graph, const auto& xs) {
                            OracleTensor indices = Numbers(c.indices, 2, 0, 5);
                            for (double& i : indices.data) i = std::floor(i);
                            indices.dtype = kInt32;
                            const Tensor at = ConstantOf(graph, indices);
                            return ScatterAdd(Gather(xs[0], at, "vocab"), at,
                                              "vocab", c.table) *
                                   xs[1];
                          });
  }
}

TEST(GatherGradient, IsAScatterAddForTheTableOnly) {
  Graph graph;
  const Tensor table = Ones(graph, kFloat32, {vocab, model});
  const Tensor indices = Zeros(graph, kInt32, {length});
  const auto g = Gradients(Gather(table, indices, "vocab"), {table, indices});
  EXPECT_EQ(g[0].operation()->kind(), "scatter_add");
  EXPECT_EQ(g[0].name(), "gather_grad_1");
  EXPECT_FALSE(g[1].valid());
}

TEST(GatherOutOfRange, ReportsTheFirstIndexInRowMajorOrder) {
  Graph graph;
  const Tensor tokens =
      Input(graph, "tokens", kInt32, {{"batch", 3}, {"length", 4}});
  const Tensor table = Zeros(graph, kFloat32, {vocab, model});
  std::string here;
  Tensor x;
  {
    Scope scope(graph, "embed");
    // clang-format off
    here = MTF_HERE; x = Gather(table, tokens, "vocab");
    // clang-format on
  }
  std::vector<int32_t> ids(12, 0);
  ids[2 * 4 + 3] = 7;
  ids[2 * 4 + 2] = 4;
  const auto run = [&] {
    return Interpret(graph, {{"tokens", HostTensor::Of(tokens.shape(), ids)}},
                     {x});
  };
  EXPECT_THAT(run(),
              StatusIs(absl::StatusCode::kOutOfRange,
                       absl::StrCat("index 7 at [batch=2, length=3] of "
                                    "\"tokens\" is outside dimension \"vocab\" "
                                    "of size 5 (gather \"embed/gather\", ",
                                    here)));
  ids[5] = -1;
  EXPECT_THAT(run(), StatusIs(absl::StatusCode::kOutOfRange,
                              HasSubstr("index -1 at [batch=1, length=1]")));
}

TEST(GatherOutOfRange, OfAScatterAdd) {
  Graph graph;
  const Tensor at = Constant(graph, {0, 5, 1}, kInt32, {length});
  const Tensor y =
      ScatterAdd(Ones(graph, kFloat32, {length}), at, "vocab", {vocab});
  EXPECT_THAT(Interpret(graph, {}, {y}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("index 5 at [length=1] of \"constant\" is "
                                 "outside dimension \"vocab\" of size 5 "
                                 "(scatter_add \"scatter_add\", "
                                 "gather_test.cc:")));
}

TEST(GatherErrors, Gather) {
  const auto gather = [](Shape table, Shape indices, DType dtype,
                         const char* dim) {
    return [=](Graph& g) {
      Gather(Input(g, "table", kFloat32, table),
             Input(g, "indices", dtype, indices), dim);
    };
  };
  ExpectError(gather({vocab}, {batch}, kInt32, "vocba"),
              {"\"table\" has no dimension \"vocba\" (gather, ",
               "did you mean \"vocab\"?"});
  ExpectError(gather({vocab}, {batch}, kFloat32, "vocab"),
              {"the indices \"indices\" are f32, not i32 or i64"});
  ExpectError(gather({vocab}, {vocab}, kInt32, "vocab"),
              {"have the dimension \"vocab\" that they index", "Rename()"});
  ExpectError(gather({vocab, batch}, {{"batch", 3}}, kInt32, "vocab"),
              {"dimension \"batch\" is 2 in \"table\" but 3 in \"indices\""});
  ExpectError(
      [](Graph& g) { Gather(Ones(g, kFloat32, {vocab}), Tensor(), "vocab"); },
      {"input 1 is an empty Tensor"});
  EXPECT_FALSE(Gather(Tensor(), Tensor(), "vocab").valid());
}

TEST(GatherErrors, ScatterAdd) {
  const auto scatter = [](Shape updates, Shape indices, Shape shape) {
    return [=](Graph& g) {
      ScatterAdd(Input(g, "updates", kFloat32, updates),
                 Input(g, "indices", kInt32, indices), "vocab", shape);
    };
  };
  ExpectError(scatter({length}, {length}, {model}),
              {"no dimension \"vocab\" in the result [model=2] "
               "(scatter_add, "});
  ExpectError(scatter({length}, {length}, {vocab, model}),
              {"\"updates\" does not have the dimensions [length=3, model=2]"});
  ExpectError(scatter({length, vocab}, {length}, {vocab}),
              {"\"updates\" does not have the dimensions [length=3]"});
  ExpectError(scatter({{"length", 4}}, {length}, {vocab}),
              {"dimension \"length\" is 4 in \"updates\" but 3"});
  ExpectError(scatter({vocab}, {vocab}, {vocab}), {"that they index"});
  ExpectError(
      [](Graph& g) {
        ScatterAdd(Ones(g, kBool, {length}), Zeros(g, kInt32, {length}),
                   "vocab", {vocab});
      },
      {"not bool"});
  EXPECT_FALSE(ScatterAdd(Tensor(), Tensor(), "vocab", {vocab}).valid());
}

}  // namespace
}  // namespace mtf
