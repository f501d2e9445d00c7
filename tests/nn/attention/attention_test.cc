// SPDX-License-Identifier: Apache-2.0
#include "nn/attention/attention.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "ops/attention.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kB = 2, kL = 3, kM = 4, kH = 2, kK = 3, kD = 5;
const Dimension kBatch{"batch", kB};
const Dimension kLength{"length", kL};
const Dimension kMemory{"memory_length", kM};
const Dimension kHeads{"heads", kH};
const Dimension kKey{"d_kv", kK};
const Dimension kModel{"d_model", kD};

using Visible = std::function<bool(int b, int l, int m)>;

// q [kB, kL, kH, kK] to k [kB, memory, kH, kK] and v [kB, memory, kH, d_v].
std::vector<double> AttentionOf(const std::vector<double>& q,
                                const std::vector<double>& k,
                                const std::vector<double>& v, int memory,
                                const Visible& visible, int d_v = kK) {
  std::vector<double> y(kB * kL * kH * d_v, 0.0);
  for (int b = 0; b < kB; ++b) {
    for (int h = 0; h < kH; ++h) {
      for (int l = 0; l < kL; ++l) {
        const auto row = [&](int length, int i) {
          return (b * length + i) * kH + h;
        };
        const auto at = [&](int length, int i, int d) {
          return row(length, i) * kK + d;
        };
        std::vector<double> weights(memory, 0.0);
        double sum = 0;
        for (int m = 0; m < memory; ++m) {
          if (!visible(b, l, m)) continue;
          double logit = 0;
          for (int d = 0; d < kK; ++d) {
            logit += q[at(kL, l, d)] * k[at(memory, m, d)];
          }
          sum += weights[m] = std::exp(logit / std::sqrt(1.0 * kK));
        }
        if (sum == 0) continue;
        for (int m = 0; m < memory; ++m) {
          for (int d = 0; d < d_v; ++d) {
            y[row(kL, l) * d_v + d] +=
                weights[m] / sum * v[row(memory, m) * d_v + d];
          }
        }
      }
    }
  }
  return y;
}

// x [kB, length, kD] times kernel [kD, kH * kK].
std::vector<double> Project(const std::vector<double>& x,
                            const std::vector<double>& kernel, int length) {
  std::vector<double> y(kB * length * kH * kK, 0.0);
  for (int i = 0; i < kB * length; ++i) {
    for (int n = 0; n < kH * kK; ++n) {
      for (int d = 0; d < kD; ++d) {
        y[i * kH * kK + n] += x[i * kD + d] * kernel[d * kH * kK + n];
      }
    }
  }
  return y;
}

std::vector<double> SelfAttentionOf(OracleGraph& o, const Visible& visible) {
  const auto& x = o.Value("x");
  const std::vector<double> heads = AttentionOf(
      Project(x, o.Value("attention/query/kernel"), kL),
      Project(x, o.Value("attention/key/kernel"), kL),
      Project(x, o.Value("attention/value/kernel"), kL), kL, visible);
  const auto& kernel = o.Value("attention/output/kernel");
  std::vector<double> y(kB * kL * kD, 0.0);
  for (int i = 0; i < kB * kL; ++i) {
    for (int n = 0; n < kH * kK; ++n) {
      for (int d = 0; d < kD; ++d) {
        y[i * kD + d] += heads[i * kH * kK + n] * kernel[n * kD + d];
      }
    }
  }
  return y;
}

struct Qkv {
  Tensor q, k, v;
  explicit Qkv(OracleGraph& o)
      : q(o.Parameter("q", {kBatch, kLength, kHeads, kKey})),
        k(o.Parameter("k", {kBatch, kMemory, kHeads, kKey})),
        v(o.Parameter("v", {kBatch, kMemory, kHeads, kKey})) {}
};

nn::DotProductAttentionOptions Options() {
  return {.length = kLength, .memory_length = kMemory, .d_kv = kKey};
}

TEST(DotProductAttention, IsTheFormula) {
  OracleGraph o;
  const Qkv t(o);
  const Tensor y = nn::DotProductAttention(t.q, t.k, t.v, Options());
  EXPECT_EQ(y.shape(), t.q.shape());
  testing::ExpectNear(o.Run(y),
                      AttentionOf(o.Value("q"), o.Value("k"), o.Value("v"), kM,
                                  [](int, int, int) { return true; }));
}

TEST(DotProductAttention, CausalAndMaskCombine) {
  OracleGraph o;
  const Qkv t(o);
  // Key 1 is padding in the first example, keys 0 and 1 in the second, whose
  // first two queries attend to no key.
  const Tensor padding =
      o.Integers("padding", {kBatch, kMemory}, {0, 1, 0, 0, 1, 1, 0, 0});
  nn::DotProductAttentionOptions options = Options();
  options.causal = true;
  options.mask = Equal(padding, 0.0);
  const Tensor y = nn::DotProductAttention(t.q, t.k, t.v, options);
  const std::vector<double> actual = o.Run(y);
  testing::ExpectNear(actual,
                      AttentionOf(o.Value("q"), o.Value("k"), o.Value("v"), kM,
                                  [](int b, int l, int m) {
                                    return m <= l && (b == 0 ? m != 1 : m >= 2);
                                  }));
  for (int i = 0; i < 2 * kH * kK; ++i) EXPECT_EQ(actual[kL * kH * kK + i], 0);
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(DotProductAttention, KeysWithoutHeadsAreShared) {
  OracleGraph o;
  const Tensor q = o.Parameter("q", {kBatch, kLength, kHeads, kKey});
  const Tensor k = o.Parameter("k", {kBatch, kMemory, kKey});
  const Tensor v = o.Parameter("v", {kBatch, kMemory, kKey});
  const Tensor y = nn::DotProductAttention(q, k, v, Options());
  const auto repeat = [](const std::vector<double>& x) {
    std::vector<double> y;
    for (int i = 0; i < kB * kM; ++i) {
      for (int h = 0; h < kH; ++h) {
        y.insert(y.end(), x.begin() + i * kK, x.begin() + (i + 1) * kK);
      }
    }
    return y;
  };
  testing::ExpectNear(
      o.Run(y),
      AttentionOf(o.Value("q"), repeat(o.Value("k")), repeat(o.Value("v")), kM,
                  [](int, int, int) { return true; }));
}

TEST(DotProductAttention, ValuesMayBeWiderOrNarrowerThanKeys) {
  for (const Dimension& d_v : {Dimension{"d_v", 5}, Dimension{"d_v", 1},
                               Dimension{"d_v", kK}, Dimension{"d_kv", 7}}) {
    OracleGraph o;
    const Tensor q = o.Parameter("q", {kBatch, kLength, kHeads, kKey});
    const Tensor k = o.Parameter("k", {kBatch, kMemory, kHeads, kKey});
    const Tensor v = o.Parameter("v", {kBatch, kMemory, kHeads, d_v});
    nn::DotProductAttentionOptions options = Options();
    options.d_v = d_v;
    options.causal = true;
    const Tensor y = nn::DotProductAttention(q, k, v, options);
    EXPECT_EQ(y.shape(), Shape({kBatch, kLength, kHeads, d_v}));
    testing::ExpectNear(o.Run(y),
                        AttentionOf(
                            o.Value("q"), o.Value("k"), o.Value("v"), kM,
                            [](int, int l, int m) { return m <= l; },
                            static_cast<int>(d_v.size)));
    o.ExpectGradientsOf(testing::Probe(o, y));
  }
}

// The options that Attention takes reach it; its tests check what they do.
TEST(DotProductAttention, TakesBiasWindowCapOffsetAndExtraLogit) {
  OracleGraph o;
  const Tensor q = o.Parameter("q", {kBatch, kLength, kHeads, kKey});
  const Tensor k = o.Parameter("k", {kBatch, kMemory, kHeads, kKey});
  const Tensor v = o.Parameter("v", {kBatch, kMemory, kHeads, kKey});
  nn::DotProductAttentionOptions options = Options();
  options.causal = true;
  options.bias = o.Parameter("bias", {kHeads, kLength, kMemory});
  options.extra_logit = o.Parameter("extra", {kHeads});
  options.window = 2;
  options.soft_cap = 3;
  options.scale = 0.25;
  options.offset = Constant(o.graph, {1}, kInt32, {});
  const Tensor y = nn::DotProductAttention(q, k, v, options);
  const Tensor expected = Attention({.q = q,
                                     .k = k,
                                     .v = v,
                                     .bias = options.bias,
                                     .offset = options.offset,
                                     .extra_logit = options.extra_logit},
                                    {.length = kLength.name,
                                     .memory_length = kMemory.name,
                                     .d_kv = kKey.name,
                                     .d_v = kKey.name,
                                     .scale = 0.25,
                                     .soft_cap = 3,
                                     .causal = true,
                                     .window = 2})
                              .output;
  testing::ExpectNear(o.Run(y), o.Run(expected));
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(SelfAttention, ValuesMayBeWiderThanKeys) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Dimension d_v{"d_v", 4};
  const Tensor y = nn::SelfAttention(
      x, {.length = kLength, .heads = kHeads, .d_kv = kKey, .d_v = d_v});
  EXPECT_EQ(y.shape(), x.shape());
  ASSERT_OK(o.graph.status());
  const auto shape_of = [&](const std::string& name) {
    for (const VariableInfo& info : o.graph.variables()) {
      if (info.name == name) return info.shape;
    }
    return Shape();
  };
  EXPECT_EQ(shape_of("attention/key/kernel"), Shape({kModel, kHeads, kKey}));
  EXPECT_EQ(shape_of("attention/value/kernel"), Shape({kModel, kHeads, d_v}));
  EXPECT_EQ(shape_of("attention/output/kernel"), Shape({kHeads, d_v, kModel}));
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(AttentionErrors, ValuesWithAnotherDimensionThanGiven) {
  const Dimension d_v{"d_v", 5};
  const auto attend = [&](Shape q, Shape v, Dimension d) {
    Graph graph;
    nn::DotProductAttentionOptions options = Options();
    options.d_v = d;
    nn::DotProductAttention(
        Input(graph, "q", kFloat32, q),
        Input(graph, "k", kFloat32, {kBatch, kMemory, kKey}),
        Input(graph, "v", kFloat32, v), options);
    return graph.status();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(
      attend({kBatch, kLength, kKey}, {kBatch, kMemory, d_v}, Dimension()),
      StatusIs(kInvalid, HasSubstr("\"v\" has no dimension \"d_kv\"")));
  EXPECT_THAT(
      attend({kBatch, kLength, kKey}, {kBatch, kMemory, {"d_v", 6}}, d_v),
      StatusIs(kInvalid,
               AllOf(HasSubstr("\"d_v\" is 5 in the call but 6 in \"v\""),
                     HasSubstr("attention_test.cc:"))));
  EXPECT_THAT(
      attend({kBatch, kLength, kKey}, {kBatch, kMemory, kKey, d_v}, d_v),
      StatusIs(kInvalid, HasSubstr("the values \"v\" have the dimension "
                                   "\"d_kv\" of the keys")));
  EXPECT_THAT(attend({kBatch, kLength, kKey, d_v}, {kBatch, kMemory, d_v}, d_v),
              StatusIs(kInvalid, HasSubstr("the queries \"q\" have the "
                                           "dimension \"d_v\" of the values")));
}

TEST(DotProductAttention, DropoutDropsWeights) {
  OracleGraph o;
  const Tensor q = Zeros(o.graph, kFloat32, {kLength, kKey});
  const Tensor k = Zeros(o.graph, kFloat32, {kMemory, kKey});
  const Tensor v = Ones(o.graph, kFloat32, {kMemory, kKey});
  nn::DotProductAttentionOptions options = Options();
  options.dropout = 0.5;
  // Equal weights of 1/4, each dropped or doubled: multiples of 1/2.
  double mean = 0;
  const Tensor y = nn::DotProductAttention(q, k, v, options);
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    for (double value : o.Run(y)) {
      EXPECT_EQ(value * 2, std::round(value * 2));
      mean += value / (kSteps * kL * kK);
    }
  }
  // Each of 600 rows has a variance of 1/4.
  EXPECT_NEAR(mean, 1, 4 * 0.5 / std::sqrt(600.0));
}

TEST(SelfAttention, IsTheFormula) {
  for (bool causal : {false, true}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    const Tensor y = nn::SelfAttention(
        x,
        {.length = kLength, .heads = kHeads, .d_kv = kKey, .causal = causal});
    EXPECT_EQ(y.shape(), x.shape());
    o.Fill();
    testing::ExpectNear(o.Run(y), SelfAttentionOf(o, [&](int, int l, int m) {
                          return !causal || m <= l;
                        }));
  }
}

TEST(SelfAttention, GradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Tensor y = nn::SelfAttention(x, {.length = kLength,
                                         .heads = kHeads,
                                         .d_kv = kKey,
                                         .causal = true,
                                         .bias = true});
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(SelfAttention, RenamesItsMemoryOnceInTheScopeOfTheLayer) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  nn::SelfAttention(x, {.length = kLength, .heads = kHeads, .d_kv = kKey});
  std::vector<std::string> renames;
  for (const auto& operation : o.graph.operations()) {
    for (const auto& [from, to] : operation->TiedDimensions()) {
      renames.push_back(absl::StrCat(from, " to ", to, " in ",
                                     o.graph.scopes()[operation->scope()]));
    }
  }
  EXPECT_THAT(renames, ElementsAre("length to memory_length in attention"));
}

TEST(SelfAttention, AcceptsAMaskWithTheUsersNames) {
  const Shape shapes[] = {{kLength, {"memory_length", kL}},
                          {kHeads, kLength, {"memory_length", kL}},
                          {kBatch, {"memory_length", kL}}};
  for (const Shape& shape : shapes) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    const Tensor all = GreaterEqual(Zeros(o.graph, kFloat32, shape), 0.0);
    const Tensor y = nn::SelfAttention(
        x, {.length = kLength, .heads = kHeads, .d_kv = kKey, .mask = all});
    ASSERT_OK(o.graph.status());
    o.Fill();
    testing::ExpectNear(o.Run(y),
                        SelfAttentionOf(o, [](int, int, int) { return true; }));
  }
}

TEST(SelfAttention, CausalMaskIsNotAConstant) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const size_t before = o.graph.operations().size();
  nn::SelfAttention(
      x, {.length = kLength, .heads = kHeads, .d_kv = kKey, .causal = true});
  for (size_t i = before; i < o.graph.operations().size(); ++i) {
    EXPECT_NE(o.graph.operations()[i]->kind(), "constant");
  }
}

TEST(MultiHeadAttention, ReadsAMemoryOfAnotherModelDimension) {
  OracleGraph o;
  const Dimension source{"source", kM}, d_source{"d_source", 6};
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Tensor memory = o.Parameter("memory", {kBatch, source, d_source});
  const Tensor y = nn::MultiHeadAttention(x, memory,
                                          {.length = kLength,
                                           .heads = kHeads,
                                           .d_kv = kKey,
                                           .memory_length = source});
  EXPECT_EQ(y.shape(), x.shape());
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(AttentionErrors, AMissingOption) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  const int line = __LINE__ + 1;
  nn::SelfAttention(x, {.length = kLength, .d_kv = kKey});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(absl::StrCat(
                           "the option .heads is missing (attention, "
                           "attention_test.cc:",
                           line, ")"))));
}

TEST(AttentionErrors, TheModelDimensionIsNotLast) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel, kLength});
  nn::SelfAttention(x, {.length = kLength, .heads = kHeads, .d_kv = kKey});
  EXPECT_THAT(
      graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("the last dimension of \"x\" is \"length\", "
                               "but must be the model dimension"),
                     HasSubstr("attention_test.cc:"))));
}

TEST(AttentionErrors, AMemoryWithTheLengthOfTheQueries) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  const Tensor memory =
      Input(graph, "memory", kFloat32, {kBatch, kLength, kMemory, kModel});
  nn::MultiHeadAttention(x, memory,
                         {.length = kLength,
                          .heads = kHeads,
                          .d_kv = kKey,
                          .memory_length = kMemory});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dimension \"length\" of the queries is also "
                                 "in \"memory\"")));
}

TEST(AttentionErrors, KeysWithADimensionThatQueriesLack) {
  Graph graph;
  const Tensor q = Input(graph, "q", kFloat32, {kLength, kKey});
  const Tensor k = Input(graph, "k", kFloat32, {kBatch, kMemory, kKey});
  nn::DotProductAttention(q, k, k, Options());
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"q\" has no dimension \"batch\" (attention, "
                                 "attention_test.cc:")));
}

TEST(AttentionErrors, AMaskOfNumbers) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  const Tensor mask = Input(graph, "mask", kInt32, {kBatch, kLength});
  nn::SelfAttention(
      x, {.length = kLength, .heads = kHeads, .d_kv = kKey, .mask = mask});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the mask is i32, not bool (attention, "
                                 "attention_test.cc:")));
}

TEST(AttentionErrors, AMaskOfAnotherShape) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  const Tensor mask = Input(graph, "mask", kBool, {kBatch, kModel});
  nn::SelfAttention(
      x, {.length = kLength, .heads = kHeads, .d_kv = kKey, .mask = mask});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dimension \"d_model\" (5) of the mask is not "
                                 "one of the attention's")));
}

}  // namespace
}  // namespace mtf
