// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/local_attention.h"

#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "nn/attention/masks.h"
#include "ops/one_hot.h"
#include "ops/reshape.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2}, kHeads{"heads", 2}, kKey{"d_kv", 2},
    kModel{"d_model", 3};

struct Qkv {
  Tensor q, k, v;
  Qkv(OracleGraph& o, const Shape& along)
      : q(o.Parameter("q", Around(along, {kHeads, kKey}))),
        k(o.Parameter("k", Around(along, {kHeads, kKey}))),
        v(o.Parameter("v", Around(along, {kHeads, kKey}))) {}

  static Shape Around(const Shape& along, const Shape& last) {
    std::vector<Dimension> dims = {kBatch};
    dims.insert(dims.end(), along.begin(), along.end());
    dims.insert(dims.end(), last.begin(), last.end());
    return Shape(dims);
  }
};

// Attention along `length` with a mask over [length, memory_length].
Tensor Masked(Tensor q, Tensor k, Tensor v, Tensor mask) {
  const Dimension length = q.dim("length");
  const Dimension memory{"memory_length", length.size};
  return nn::DotProductAttention(
      q, Rename(k, "length", memory.name), Rename(v, "length", memory.name),
      {.length = length, .memory_length = memory, .d_kv = kKey, .mask = mask});
}

TEST(LocalAttention, IsAttentionWithAWindowMask) {
  for (const int64_t size : {1, 5, 8}) {
    for (const int64_t radius : {0, 1, 3, 9}) {
      for (const int64_t block : {0, 1, 3, 4}) {
        for (const bool causal : {false, true}) {
          SCOPED_TRACE(absl::StrCat(size, " ", radius, " ", block, causal));
          OracleGraph o;
          const Dimension length{"length", size};
          const Qkv t(o, {length});
          const Tensor y =
              nn::LocalAttention(t.q, t.k, t.v,
                                 {.along = {{length, radius, block}},
                                  .d_kv = kKey,
                                  .causal = causal});
          ASSERT_OK(o.graph.status());
          EXPECT_EQ(y.shape(), t.q.shape());
          const Tensor mask = nn::WindowMask(
              Range(o.graph, length), Range(o.graph, {"memory_length", size}),
              radius, causal ? 0 : radius);
          testing::ExpectNear(o.Run(y), o.Run(Masked(t.q, t.k, t.v, mask)));
        }
      }
    }
  }
}

// Of an image, whose pixels are in row-major order.
Tensor ImageMask(Graph& graph, int64_t height, int64_t width, int64_t rows,
                 int64_t columns, bool causal) {
  const Tensor q = Range(graph, {"length", height * width});
  const Tensor k = Range(graph, {"memory_length", height * width});
  const auto w = static_cast<double>(width);
  Tensor mask = LogicalAnd(
      nn::WindowMask(FloorDivide(q, w), FloorDivide(k, w), rows, rows),
      nn::WindowMask(Mod(q, w), Mod(k, w), columns, columns));
  return causal ? LogicalAnd(mask, nn::CausalMask(q, k)) : mask;
}

TEST(LocalAttention, OfAnImageIsAttentionWithAMask) {
  for (const auto& [height, width] : {std::pair(3, 5), std::pair(4, 4)}) {
    for (const bool causal : {false, true}) {
      for (const int64_t block : {0, 2}) {
        OracleGraph o;
        const Dimension h{"height", height}, w{"width", width};
        const Qkv t(o, {h, w});
        const Tensor y =
            nn::LocalAttention(t.q, t.k, t.v,
                               {.along = {{h, 1, block}, {w, 2, block}},
                                .d_kv = kKey,
                                .causal = causal});
        ASSERT_OK(o.graph.status());
        EXPECT_EQ(y.shape(), t.q.shape());
        const auto flat = [](Tensor x) {
          return MergeDimensions(x, {"height", "width"}, "length");
        };
        const Tensor expected =
            Masked(flat(t.q), flat(t.k), flat(t.v),
                   ImageMask(o.graph, height, width, 1, 2, causal));
        testing::ExpectNear(o.Run(y), o.Run(expected));
      }
    }
  }
}

TEST(LocalAttention, KeepsToSegmentsAndSharesKeysOfHeads) {
  OracleGraph o;
  const Dimension length{"length", 6};
  const Tensor q = o.Parameter("q", {kBatch, length, kHeads, kKey});
  const Tensor k = o.Parameter("k", {kBatch, length, kKey});
  const Tensor v = o.Parameter("v", {kBatch, length, kKey});
  const Tensor segments = o.Integers("segments", {kBatch, length},
                                     {1, 1, 1, 2, 2, 0, 3, 4, 4, 4, 4, 4});
  const Tensor y = nn::LocalAttention(q, k, v,
                                      {.along = {{length, 2, 4}},
                                       .d_kv = kKey,
                                       .causal = true,
                                       .segments = segments});
  const Dimension memory{"memory_length", 6};
  const Tensor mask = LogicalAnd(
      nn::WindowMask(Range(o.graph, length), Range(o.graph, memory), 2, 0),
      nn::SegmentMask(segments, Rename(segments, "length", memory.name)));
  testing::ExpectNear(o.Run(y), o.Run(Masked(q, k, v, mask)));
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(LocalAttention, GradientsMatchDifferences) {
  OracleGraph o;
  const Dimension h{"height", 2}, w{"width", 3};
  const Qkv t(o, {h, w});
  const Tensor y = nn::LocalAttention(
      t.q, t.k, t.v,
      {.along = {{h, 1, 1}, {w, 1, 2}}, .d_kv = kKey, .causal = true});
  o.ExpectGradientsOf(testing::Probe(o, y));
}

// The work is that of blocks: logits of 4 + 2 * 2 keys for each query.
TEST(LocalAttention, HoldsNoLogitsOfTheCompleteLength) {
  OracleGraph o;
  const Dimension length{"length", 1000};
  const Qkv t(o, {length});
  nn::LocalAttention(t.q, t.k, t.v, {.along = {{length, 2, 4}}, .d_kv = kKey});
  for (const auto& operation : o.graph.operations()) {
    EXPECT_LT(operation->shape().num_elements(), 1000 * 8 * 2 * 2 * 2 + 1)
        << operation->name();
  }
}

TEST(LocalSelfAttention, HasTheParametersOfSelfAttention) {
  OracleGraph o;
  const Dimension length{"length", 5}, memory{"memory_length", 5};
  const Tensor x = o.Parameter("x", {kBatch, length, kModel});
  Tensor local, full;
  {
    const Scope scope(o.graph, "net");
    local =
        nn::LocalSelfAttention(x, {.along = {{length, 1}}},
                               {.heads = kHeads, .d_kv = kKey, .causal = true});
  }
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    full = nn::SelfAttention(x, {.length = length,
                                 .heads = kHeads,
                                 .d_kv = kKey,
                                 .causal = true,
                                 .window = 2});
  }
  ASSERT_OK(o.graph.status());
  testing::ExpectNear(o.Run(local), o.Run(full));
}

TEST(LocalSelfAttention, ScalesProducts) {
  OracleGraph o;
  const Dimension length{"length", 5};
  const Tensor x = o.Parameter("x", {kBatch, length, kModel});
  const auto attend = [&](std::optional<double> scale, Scope::Naming naming) {
    const Scope scope(o.graph, "net", naming);
    return nn::LocalSelfAttention(
        x, {.along = {{length, 2}}},
        {.heads = kHeads, .d_kv = kKey, .soft_cap = 0.5, .scale = scale});
  };
  const Tensor one = attend(1.0, Scope::kAsGiven);
  const Tensor usual = attend(std::nullopt, Scope::kReuse);
  const Tensor same =
      attend(1 / std::sqrt(static_cast<double>(kKey.size)), Scope::kReuse);
  ASSERT_OK(o.graph.status());
  testing::ExpectNear(o.Run(usual), o.Run(same));
  EXPECT_NE(o.Run(one), o.Run(usual));
}

TEST(LocalSelfAttentionErrors, EachOptionHasOnePlace) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const Dimension length{"length", 5};
  const auto error =
      [&](const std::function<void(nn::LocalAttentionOptions&)>& set) {
        Graph graph;
        nn::LocalAttentionOptions local = {.along = {{length, 1}}};
        set(local);
        nn::LocalSelfAttention(Input(graph, "x", kFloat32, {length, kModel}),
                               local, {.heads = kHeads, .d_kv = kKey});
        return graph.status();
      };
  using Local = nn::LocalAttentionOptions;
  EXPECT_OK(error([](Local&) {}));
  EXPECT_THAT(
      error([](Local& l) { l.causal = true; }),
      StatusIs(kInvalid, AllOf(HasSubstr(".causal is set in LocalAttention"),
                               HasSubstr("set .causal in AttentionOptions"))));
  EXPECT_THAT(error([](Local& l) { l.dropout = 0.1; }),
              StatusIs(kInvalid, HasSubstr(".dropout is set")));
  EXPECT_THAT(error([](Local& l) { l.soft_cap = 5; }),
              StatusIs(kInvalid, HasSubstr(".soft_cap is set")));
  EXPECT_THAT(error([](Local& l) { l.scale = 1; }),
              StatusIs(kInvalid, HasSubstr(".scale is set")));
  EXPECT_THAT(error([](Local& l) { l.d_kv = kKey; }),
              StatusIs(kInvalid, HasSubstr(".d_kv is set")));
  EXPECT_THAT(error([](Local& l) { l.d_v = kKey; }),
              StatusIs(kInvalid, HasSubstr(".d_v is set")));
  Graph graph;
  nn::LocalSelfAttention(Input(graph, "x", kFloat32, {length, kModel}),
                         {.along = {{length, 1}}},
                         {.length = length, .heads = kHeads, .d_kv = kKey});
  EXPECT_THAT(graph.status(), StatusIs(kInvalid, HasSubstr("leave both away")));
}

TEST(LocalAttentionErrors, SayWhatIsWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  const Dimension length{"length", 5};
  const auto error = [&](std::vector<nn::LocalDimension> along,
                         Shape segments = {{"length", 5}}) {
    Graph graph;
    const Tensor q = Input(graph, "q", kFloat32, {length, kKey});
    nn::LocalAttention(q, q, q,
                       {.along = std::move(along),
                        .d_kv = kKey,
                        .segments = Input(graph, "s", kInt32, segments)});
    return graph.status();
  };
  EXPECT_THAT(error({}), StatusIs(kInvalid, HasSubstr(".along is empty")));
  EXPECT_THAT(
      error({{length, -1}}),
      StatusIs(kInvalid, AllOf(HasSubstr("the radius -1 or the block 0 of "
                                         "\"length\" is negative"),
                               HasSubstr("local_attention_test.cc:"))));
  EXPECT_THAT(error({{length, 1}, {length, 1}}),
              StatusIs(kInvalid, HasSubstr("\"length\" is twice")));
  EXPECT_THAT(error({{{"length", 6}, 1}}),
              StatusIs(kInvalid, HasSubstr("is 6 in the call but 5 in \"q\"")));
  EXPECT_THAT(error({{length, 1}}, {length, kKey}),
              StatusIs(kInvalid, HasSubstr("the segments \"s\" have the "
                                           "dimension \"d_kv\"")));
  EXPECT_THAT(error({{length, 1}}, {kKey}),
              StatusIs(kInvalid, HasSubstr("\"s\" has no dimension")));
  Graph graph;
  nn::LocalSelfAttention(Input(graph, "x", kFloat32, {length, kModel}),
                         {.along = {{length, 1}}},
                         {.heads = kHeads, .d_kv = kKey, .window = 3});
  EXPECT_THAT(graph.status(),
              StatusIs(kInvalid, HasSubstr("are options of attention to a "
                                           "complete memory")));
}

}  // namespace
}  // namespace mtf
