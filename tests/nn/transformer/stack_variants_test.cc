// SPDX-License-Identifier: Apache-2.0
//
// Universal, funnel and evolved transformers: against plain loops, or against
// the functions that they consist of.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "nn/attention/memory_compressed_attention.h"
#include "nn/attention/position_bias.h"
#include "nn/layers/convolution.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer_norm.h"
#include "nn/transformer/evolved.h"
#include "nn/transformer/funnel.h"
#include "nn/transformer/universal.h"
#include "ops/one_hot.h"
#include "ops/pad.h"
#include "ops/reshape.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kBatch{"batch", 2}, kLength{"length", 5}, kModel{"d_model", 4},
    kHeads{"heads", 2}, kKey{"d_kv", 2}, kHidden{"d_ff", 9};

// One element [i, c] of sinusoids of the position or step `at`.
double Sinusoid(double at, int c) {
  const double angle = at / std::pow(10000.0, (c / 2 * 2) / 4.0);
  return c % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

struct AdaptiveLoops {
  std::vector<double> output, updates, remainders, weight_sums;
  double ponder = 0;
};

// Adaptive computation of steps state <- tanh(2 state), by the definition.
AdaptiveLoops RunAdaptive(OracleGraph& o, int steps, nn::Halting halting,
                          double threshold, bool per_sequence) {
  const std::vector<double>& w = o.Value("universal/step/halting/kernel");
  const double bias = o.Value("universal/step/halting/bias")[0];
  const int rows = 10, group = per_sequence ? 5 : 1;
  std::vector<double> state = o.Value("x");
  AdaptiveLoops loops;
  loops.output.assign(40, 0.0);
  std::vector<double> sum(rows / group, 0.0);
  std::vector<bool> halted(rows / group, false);
  loops.updates = loops.remainders = loops.weight_sums = sum;
  for (int t = 0; t < steps; ++t) {
    std::vector<double> p(rows / group, 0.0);
    for (int r = 0; r < rows; ++r) {
      double logit = bias;
      for (int c = 0; c < 4; ++c) {
        state[r * 4 + c] += Sinusoid(r % 5, c);
        state[r * 4 + c] += Sinusoid(t + 1, c);
        logit += state[r * 4 + c] * w[c];
      }
      p[r / group] += 1 / (1 + std::exp(-logit)) / group;
    }
    for (double& each : state) each = std::tanh(2 * each);
    for (int g = 0; g < rows / group; ++g) {
      double weight = 0;
      if (!halted[g]) {
        loops.updates[g] += 1;
        if (t + 1 == steps || sum[g] + p[g] > threshold) {
          halted[g] = true;
          weight = loops.remainders[g] = 1 - sum[g];
        } else {
          weight = p[g];
          sum[g] += p[g];
        }
      }
      loops.weight_sums[g] += weight;
      for (int i = g * group * 4; i < (g + 1) * group * 4; ++i) {
        const double keep =
            halting == nn::Halting::kInterpolated ? 1 - weight : 1;
        loops.output[i] = weight * state[i] + keep * loops.output[i];
      }
    }
  }
  for (size_t g = 0; g < sum.size(); ++g) {
    loops.ponder += (loops.updates[g] + loops.remainders[g]) /
                    static_cast<double>(sum.size());
  }
  return loops;
}

TEST(UniversalTransformer, HaltsEachPositionByItsProbabilities) {
  bool early = false, late = false;
  for (const nn::Halting halting :
       {nn::Halting::kWeightedMean, nn::Halting::kInterpolated}) {
    for (const bool per_sequence : {false, true}) {
      OracleGraph o;
      const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
      const nn::Universal result = nn::UniversalTransformer(
          x, [](Tensor state) { return Tanh(state * 2.0); },
          {.steps = 3,
           .halting = halting,
           .threshold = 0.9,
           .length = kLength,
           .per_sequence = per_sequence});
      ASSERT_OK(o.graph.status());
      // With these, positions halt in each of the steps.
      const std::string halting_layer = "universal/step/halting/";
      o.variables[halting_layer + "kernel"] = {
          {kModel, {"halting", 1}}, kFloat32, {1.5, -1, 1, -1}};
      o.variables[halting_layer + "bias"] = {{{"halting", 1}}, kFloat32, {1}};
      o.Fill();
      const AdaptiveLoops want = RunAdaptive(o, 3, halting, 0.9, per_sequence);
      testing::ExpectNear(o.Run(result.output), want.output, 1e-5);
      testing::ExpectNear(o.Run(result.updates), want.updates);
      testing::ExpectNear(o.Run(result.remainders), want.remainders, 1e-5);
      EXPECT_NEAR(o.Run(result.ponder_cost)[0], want.ponder, 1e-5);
      for (const double sum : want.weight_sums) EXPECT_NEAR(sum, 1, 1e-9);
      for (const double updates : want.updates) {
        early = early || updates < 3;
        late = late || updates == 3;
      }
      o.ExpectGradientsOf(testing::Probe(o, result.output) +
                          result.ponder_cost);
    }
  }
  EXPECT_TRUE(early && late);
}

TEST(UniversalTransformer, SharesTheParametersOfAllSteps) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const nn::Universal result = nn::UniversalTransformer(
      x,
      [](Tensor state) {
        return nn::Dense(state, {kModel}, {kModel}, {.activation = Tanh});
      },
      {.steps = 3, .step_signal = false});
  ASSERT_OK(o.graph.status());
  EXPECT_FALSE(result.ponder_cost.valid());
  EXPECT_EQ(o.graph.variables().size(), 3);  // x, kernel and bias
  o.Fill();
  const std::vector<double> w = o.Value("universal/step/dense/kernel"),
                            b = o.Value("universal/step/dense/bias");
  std::vector<double> state = o.Value("x");
  for (int t = 0; t < 3; ++t) {
    std::vector<double> next(40);
    for (int i = 0; i < 40; ++i) {
      next[i] = b[i % 4];
      for (int d = 0; d < 4; ++d) {
        next[i] += state[i / 4 * 4 + d] * w[d * 4 + i % 4];
      }
      next[i] = std::tanh(next[i]);
    }
    state = next;
  }
  testing::ExpectNear(o.Run(result.output), state, 1e-6);
}

nn::TransformerOptions Stack() {
  return {.attention = {.length = kLength, .heads = kHeads, .d_kv = kKey},
          .d_ff = kHidden};
}

// The layers of a funnel, written out.
class FunnelByHand {
 public:
  FunnelByHand(Tensor x, bool relative) : y_(x), relative_(relative) {}

  // A layer of `size` positions, each `stride` positions of the input.
  void Layer(const std::string& block, int layer, int64_t size, int stride) {
    nn::AttentionOptions attention = Attention(size, size);
    attention.position_bias = Bias(block, attention, stride, stride);
    const Scope scope = LayerScope(block, layer);
    y_ = y_ + nn::SelfAttention(nn::LayerNorm(y_, kModel), attention);
    FeedForward();
  }

  // One whose `after` queries are pooled.
  void Pooled(const std::string& block, int64_t size, int64_t after,
              int stride) {
    nn::AttentionOptions attention = Attention(after, size);
    attention.position_bias = Bias(block, attention, 2 * stride, stride);
    const Scope scope = LayerScope(block, 0);
    const Tensor normal = nn::LayerNorm(y_, kModel);
    y_ = nn::CompressMean(y_, "length", 2) +
         nn::MultiHeadAttention(nn::CompressMean(normal, "length", 2),
                                Rename(normal, "length", "memory_length"),
                                attention);
    FeedForward();
  }

  Tensor Normalized() const {
    const Scope scope(y_.graph(), "funnel", Scope::kReuse);
    return nn::LayerNorm(y_, kModel);
  }
  int64_t layers() const { return layers_; }

 private:
  static nn::AttentionOptions Attention(int64_t queries, int64_t keys) {
    nn::AttentionOptions attention = Stack().attention;
    attention.length.size = queries;
    attention.memory_length = {"memory_length", keys};
    return attention;
  }

  Scope LayerScope(const std::string& block, int layer) {
    return {y_.graph(), "funnel/" + block + "/layer_" + std::to_string(layer),
            Scope::kReuse};
  }

  Tensor Bias(const std::string& block, const nn::AttentionOptions& attention,
              int query_stride, int key_stride) {
    if (!relative_) return {};
    Graph& graph = y_.graph();
    const Scope scope(graph, "funnel/" + block, Scope::kReuse);
    return nn::RelativePositionBias(
        Range(graph, attention.length) * query_stride,
        Range(graph, attention.memory_length) * key_stride, kHeads,
        {.buckets = 8, .max_distance = 5, .name = "attention_bias"});
  }

  void FeedForward() {
    y_ = y_ + nn::FeedForward(nn::LayerNorm(y_, kModel), kHidden, Gelu);
    ++layers_;
  }

  Tensor y_;
  const bool relative_;
  int64_t layers_ = 0;
};

// Applications of attention, one for each of a layer.
int64_t CountAttention(const Graph& graph) {
  const auto& operations = graph.operations();
  return std::count_if(
      operations.begin(), operations.end(),
      [&](const auto& operation) { return operation->kind() == "attention"; });
}

TEST(FunnelTransformer, PoolsOnceAndRepeatsLayersInPlace) {
  for (const bool relative : {false, true}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    nn::FunnelOptions options = {
        .blocks = {1, 2, 1}, .repeats = {1, 3, 2}, .stack = Stack()};
    if (relative) {
      options.stack.relative_positions =
          nn::RelativePositionOptions{.buckets = 8, .max_distance = 5};
    }
    const nn::Funnel funnel = nn::FunnelTransformer(x, options);
    ASSERT_OK(o.graph.status());
    // x, ten parameters of each layer, a table of each block, the last norm.
    EXPECT_EQ(o.graph.variables().size(), 1 + 4 * 10 + (relative ? 3 : 0) + 2);
    ASSERT_EQ(funnel.states.size(), 3);
    for (int b = 0; b < 3; ++b) {
      const std::vector<int64_t> lengths = {5, 3, 2};
      EXPECT_EQ(funnel.states[b].shape().SizeOf("length"), lengths[b]);
    }
    const int64_t applied = CountAttention(o.graph);
    FunnelByHand want(x, relative);
    want.Layer("block_0", 0, 5, 1);
    want.Pooled("block_1", 5, 3, 1);
    want.Layer("block_1", 0, 3, 2);
    want.Layer("block_1", 0, 3, 2);
    for (int i = 0; i < 3; ++i) want.Layer("block_1", 1, 3, 2);
    want.Pooled("block_2", 3, 2, 2);
    want.Layer("block_2", 0, 2, 4);
    const Tensor y = want.Normalized();
    ASSERT_OK(o.graph.status());
    EXPECT_EQ(applied, 1 * 1 + 2 * 3 + 1 * 2);
    EXPECT_EQ(want.layers(), applied);
    testing::ExpectNear(o.Run(funnel.output), o.Run(y), 1e-9);
  }
}

// The pooled layer creates what the others read, by all options of residuals.
TEST(FunnelTransformer, RepeatsLayersWithAnyResiduals) {
  for (const nn::NormPosition position :
       {nn::NormPosition::kBefore, nn::NormPosition::kAfter,
        nn::NormPosition::kAround}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    nn::FunnelOptions options = {
        .blocks = {1, 1}, .repeats = {2, 2}, .stack = Stack()};
    options.stack.residual.position = position;
    options.stack.residual.rezero = true;
    options.stack.residual.clip_gradient = 1e3;
    options.stack.residual.dropout_rate = Constant(o.graph, 0.25, kFloat32, {});
    const nn::Funnel funnel = nn::FunnelTransformer(x, options);
    ASSERT_OK(o.graph.status());
    const int norms = position == nn::NormPosition::kAround ? 4 : 2;
    // Kernels and biases are six, and rezero has two parameters.
    EXPECT_EQ(o.graph.variables().size(), 1 + 2 * (2 * norms + 6 + 2) + 2);
    EXPECT_EQ(CountAttention(o.graph), 4);
    EXPECT_EQ(o.Run(funnel.output).size(), 2 * 3 * 4);
  }
}

TEST(FunnelTransformer, RepeatsLayersAndIgnoresPadding) {
  for (const nn::FunnelPooling pooling :
       {nn::FunnelPooling::kMax, nn::FunnelPooling::kMin}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    nn::FunnelOptions options = {.blocks = {1, 2},
                                 .repeats = {2, 3},
                                 .factor = 3,
                                 .pooling = pooling,
                                 .stack = Stack()};
    options.stack.relative_positions =
        nn::RelativePositionOptions{.buckets = 4, .max_distance = 4};
    options.mask = Constant(o.graph, {1, 1, 1, 0, 0, 1, 1, 1, 1, 0}, kBool,
                            {kBatch, kLength});
    const nn::Funnel funnel = nn::FunnelTransformer(x, options);
    ASSERT_OK(o.graph.status());
    // Norms, attention and feed-forward layers of three layers, once.
    EXPECT_EQ(o.graph.variables().size(), 1 + 3 * (4 + 4 + 2) + 2 + 2);
    EXPECT_EQ(CountAttention(o.graph), 1 * 2 + 2 * 3);
    testing::ExpectNear(o.Run(funnel.mask), {1, 0, 1, 1});
    const std::vector<double> before = o.Run(funnel.output);
    ASSERT_EQ(before.size(), 16);
    // Position 4 of row 0 is padding, and is pooled with padding only.
    o.variables["x"].data[4 * 4 + 1] += 1;
    const std::vector<double> after = o.Run(funnel.output);
    for (int c = 0; c < 4; ++c) {
      EXPECT_EQ(before[c], after[c]);
      EXPECT_EQ(before[8 + c], after[8 + c]);
    }
  }
}

TEST(FunnelUpsample, RepeatsPositions) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {{"length", 2}, {"d", 1}}, {3, 7});
  for (const int size : {4, 5, 6}) {
    const Tensor y = nn::FunnelUpsample(x, {"length", size}, 3);
    std::vector<double> want = {3, 3, 3, 7, 7, 7};
    want.resize(size);
    testing::ExpectNear(o.Run(y), want);
  }
  EXPECT_OK(o.graph.status());
  nn::FunnelUpsample(x, {"length", 7}, 3);
  EXPECT_THAT(o.graph.status(),
              StatusIs(kInvalid, HasSubstr("repeated 3 times to 7")));
}

TEST(EvolvedBlocks, ConsistOfTheLayersOfThePaper) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const nn::EvolvedOptions options = {.attention = Stack().attention,
                                      .d_ff = kHidden};
  Tensor y, z = x;
  {
    const Scope scope(o.graph, "net");
    y = nn::EvolvedEncoderBlock(x, options);
  }
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    const Scope block(o.graph, "evolved");
    const auto norm = [&] { return nn::LayerNorm(z, kModel); };
    z = z + nn::DenseProduct(norm(), {kModel}, {kModel}, {nullptr, Sigmoid},
                             {.name = "gated"});
    const Tensor in = norm();
    const Tensor wide =
        nn::Dense(in, {kModel}, {kHidden},
                  {.bias = false, .activation = Relu, .name = "wide"});
    const Tensor narrow =
        nn::Convolution(in, {{"length", 3}}, kModel, {"d_ff", 2},
                        {.activation = Relu, .name = "narrow"});
    const Tensor joined = nn::SeparableConvolution(
        nn::LayerNorm(wide + Pad(narrow, "d_ff", 0, 7), kHidden),
        {{"length", 9}}, kHidden, {"d_model", 2}, {.name = "joined"});
    z = z + Pad(joined, "d_model", 0, 2);
    z = z + nn::SelfAttention(norm(), options.attention);
    z = z + nn::FeedForward(norm(), kHidden, Relu);
  }
  ASSERT_OK(o.graph.status());
  testing::ExpectNear(o.Run(y), o.Run(z), 1e-9);
}

TEST(EvolvedBlocks, OfADecoderDoNotLookAhead) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel}),
               memory = o.Parameter("memory",
                                    {kBatch, {"memory_length", 3}, kModel});
  const nn::EvolvedOptions options = {.attention = Stack().attention,
                                      .d_ff = kHidden};
  const Tensor y = nn::EvolvedDecoderBlock(x, options, memory);
  const Tensor alone = nn::EvolvedDecoderBlock(x, options);
  ASSERT_OK(o.graph.status());
  EXPECT_TRUE(Gradients(ReduceSum(y, {}), {memory})[0].valid());
  for (const Tensor& block : {y, alone}) {
    const std::vector<double> before = o.Run(block);
    o.variables["x"].data[3 * 4 + 2] += 0.5;  // row 0, position 3
    const std::vector<double> after = o.Run(block);
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(before[i] != after[i], i / 4 == 3 || i / 4 == 4) << i;
    }
  }
  // The first self-attention has twice as many heads of half the size.
  const auto kernel = [&](const std::string& layer) {
    for (const VariableInfo& info : o.graph.variables()) {
      if (info.name == "evolved/" + layer + "/query/kernel") return info.shape;
    }
    return Shape();
  };
  EXPECT_TRUE(
      kernel("attention").SameDimensions({kModel, {"heads", 4}, {"d_kv", 1}}));
  EXPECT_TRUE(kernel("attention_1").SameDimensions({kModel, kHeads, kKey}));
}

TEST(StackVariantErrors, SayWhatIsWrong) {
  const auto error = [](const std::function<void(Tensor)>& make) {
    Graph graph;
    make(Input(graph, "x", kFloat32, {kBatch, kLength, kModel}));
    return graph.status();
  };
  const auto same = [](Tensor x) { return x; };
  EXPECT_THAT(error([](Tensor x) { nn::UniversalTransformer(x, nullptr); }),
              StatusIs(kInvalid, HasSubstr("function of a step is null")));
  EXPECT_THAT(
      error([&](Tensor x) { nn::UniversalTransformer(x, same, {.steps = 0}); }),
      StatusIs(kInvalid, HasSubstr(".steps is 0, less than 1")));
  EXPECT_THAT(error([&](Tensor x) {
                nn::UniversalTransformer(x, same, {.per_sequence = true});
              }),
              StatusIs(kInvalid, HasSubstr(".length is missing")));
  EXPECT_THAT(error([&](Tensor x) {
                nn::UniversalTransformer(
                    x, [](Tensor t) { return ReduceSum(t, {kModel}); });
              }),
              StatusIs(kInvalid, HasSubstr("other dimensions than x")));
  const auto funnel = [&](const std::function<void(nn::FunnelOptions&)>& set) {
    return error([&](Tensor x) {
      nn::FunnelOptions options = {.stack = Stack()};
      set(options);
      nn::FunnelTransformer(x, options);
    });
  };
  EXPECT_THAT(funnel([](nn::FunnelOptions& f) { f.blocks = {}; }),
              StatusIs(kInvalid, HasSubstr("0 blocks and 0 .repeats")));
  EXPECT_THAT(funnel([](nn::FunnelOptions& f) {
                f.blocks = {1, 0};
              }),
              StatusIs(kInvalid, HasSubstr("must be at least 1")));
  EXPECT_THAT(
      funnel([](nn::FunnelOptions& f) { f.stack.attention.causal = true; }),
      StatusIs(kInvalid, HasSubstr("lengths change in a funnel")));
  EXPECT_THAT(funnel([](nn::FunnelOptions& f) {
                f.stack.ensemble = {"ensemble", 2};
              }),
              StatusIs(kInvalid, HasSubstr("and .ensemble")));
  EXPECT_THAT(funnel([](nn::FunnelOptions& f) { f.stack.d_ff = {}; }),
              StatusIs(kInvalid, HasSubstr(".d_ff is missing")));
  EXPECT_THAT(error([](Tensor x) {
                nn::EvolvedEncoderBlock(
                    x, {.attention = Stack().attention, .d_ff = {"d_ff", 7}});
              }),
              StatusIs(kInvalid, HasSubstr("at least twice as much")));
  const auto decoder = [&](nn::AttentionOptions attention) {
    return error([&](Tensor x) {
      nn::EvolvedDecoderBlock(x, {.attention = attention, .d_ff = kHidden});
    });
  };
  nn::AttentionOptions attention = Stack().attention;
  attention.d_v = {"d_v", 5};
  EXPECT_THAT(decoder(attention),
              StatusIs(kInvalid, HasSubstr("\"d_v\" is 5, but must be even")));
  attention.d_kv.size = 3;
  EXPECT_THAT(decoder(attention),
              StatusIs(kInvalid, HasSubstr("\"d_kv\" is 3, but must be even")));
}

}  // namespace
}  // namespace mtf
