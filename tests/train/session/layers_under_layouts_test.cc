// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (edge_cases_test runs the same threads)
//
// Layers, losses and attention with their gradients: the values of the oracle
// under layouts that shard each of their dimensions unevenly, over up to three
// axes.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/reference/interpreter.h"
#include "gtest/gtest.h"
#include "nn/attention/attention.h"
#include "nn/attention/branched_attention.h"
#include "nn/attention/local_attention.h"
#include "nn/attention/masks.h"
#include "nn/attention/memory_compressed_attention.h"
#include "nn/attention/position_bias.h"
#include "nn/attention/synthesizer_attention.h"
#include "nn/attention/talking_heads_attention.h"
#include "nn/layers/dense.h"
#include "nn/layers/gradient_control.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/light_convolution.h"
#include "nn/layers/product_key_memory.h"
#include "nn/layers/regularization.h"
#include "nn/layers/rezero.h"
#include "nn/layers/sinusoid_positions.h"
#include "nn/layers/unit_scaling.h"
#include "nn/losses/cross_entropy.h"
#include "nn/losses/mean_squared_error.h"
#include "nn/losses/sigmoid_cross_entropy.h"
#include "nn/transformer/ensemble.h"
#include "nn/transformer/evolved.h"
#include "nn/transformer/funnel.h"
#include "nn/transformer/sequence_model.h"
#include "nn/transformer/student_teacher.h"
#include "nn/transformer/universal.h"
#include "nn/vocabulary/adaptive_vocabulary.h"
#include "nn/vocabulary/factorized_embedding.h"
#include "nn/vocabulary/mixture_of_softmaxes.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/one_hot.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

const Dimension kBatch{"batch", 3}, kLength{"length", 7}, kModel{"d_model", 5},
    kHeads{"heads", 3}, kKey{"d_kv", 4}, kGroups{"groups", 2},
    kVocab{"vocab", 5}, kHeight{"height", 5}, kWidth{"width", 3},
    kExperts{"experts", 3}, kHidden{"hidden", 4}, kWide{"d_ff", 9},
    kEven{"d_model", 4};

// A graph with inputs of some numbers, whose fetches have gradients.
struct Network {
  Graph graph;
  std::map<std::string, HostTensor> feeds;
  std::vector<Tensor> fetches, inputs;

  Tensor Feed(const Shape& shape) {
    const std::string name = absl::StrCat("x", feeds.size());
    std::vector<double> numbers(shape.num_elements());
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = std::sin(1.7 * static_cast<double>(i) +
                            static_cast<double>(feeds.size()));
    }
    feeds[name] = HostTensor::FromDoubles(shape, kFloat32, numbers);
    inputs.push_back(Input(graph, name, kFloat32, shape));
    return inputs.back();
  }
  // Integers below `limit`.
  Tensor Integers(const Shape& shape, int limit) {
    const std::string name = absl::StrCat("x", feeds.size());
    std::vector<double> numbers(shape.num_elements());
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<double>(i * 5 % 7 % limit);
    }
    feeds[name] = HostTensor::FromDoubles(shape, kInt32, numbers);
    return Input(graph, name, kInt32, shape);
  }
  // Fetches `y`, and the gradients of inputs and parameters of its square.
  void Fetch(Tensor y) {
    fetches.push_back(y);
    if (!IsFloat(y.dtype())) return;
    std::vector<Tensor> to = inputs;
    for (const VariableInfo& info : graph.variables()) to.push_back(info.read);
    for (const Tensor& dx : Gradients(ReduceMean(Square(y), {}), to)) {
      if (dx.valid()) fetches.push_back(dx);
    }
  }
};

void Losses(Network& n) {
  const Shape positions = {kBatch, kLength};
  const Tensor logits = n.Feed({kBatch, kLength, kVocab});
  const Tensor targets = Exp(n.Feed({kBatch, kLength, kVocab}));
  const Tensor weights = n.Integers({kLength}, 3);
  for (const bool per_position : {false, true}) {
    n.Fetch(nn::SoftmaxCrossEntropy(logits, kVocab, targets,
                                    {.label_smoothing = 0.1,
                                     .z_loss = 0.1,
                                     .weights = weights,
                                     .per_position = per_position}));
    n.Fetch(nn::SigmoidCrossEntropy(
        logits, Sigmoid(targets),
        {.weights = weights, .per_position = per_position}));
    n.Fetch(nn::MeanSquaredError(
        logits, targets, {.weights = weights, .per_position = per_position}));
  }
  n.Fetch(nn::CrossEntropy(n.Feed({kBatch, kLength, kModel}), kVocab, targets,
                           {.blocks = 3}));
}

void Positions(Network& n) {
  const Tensor x = n.Feed({kBatch, kLength, kHeads, kKey});
  const Tensor positions = n.Integers({kBatch, kLength}, 7);
  for (const auto pairs :
       {nn::RotaryPairs::kHalves, nn::RotaryPairs::kInterleaved}) {
    n.Fetch(nn::RotaryEmbedding(x, kLength, kKey, {.pairs = pairs}));
    n.Fetch(nn::RotaryEmbedding(
        x, kLength, kKey,
        {.fraction = 0.5, .pairs = pairs, .positions = positions}));
  }
  n.Fetch(nn::SinusoidPositions(positions, kModel));
  const Tensor memory = Range(n.graph, {"memory_length", 6});
  n.Fetch(nn::RelativePositionBias(positions, memory, kHeads,
                                   {.buckets = 6, .max_distance = 5}));
  n.Fetch(nn::AlibiBias(positions, memory, kHeads));
  for (const Tensor& mask :
       {nn::PrefixMask(positions, memory, n.Integers({kBatch}, 4)),
        nn::BlockMask2d(positions, memory, {.width = 3})}) {
    n.Fetch(Cast(mask, kInt32));
  }
}

void Attention(Network& n) {
  const Tensor x = n.Feed({kBatch, kLength, kModel});
  const Dimension memory{"memory_length", kLength.size};
  n.Fetch(nn::SelfAttention(
      x, {.length = kLength,
          .heads = kHeads,
          .d_kv = kKey,
          .causal = true,
          .groups = kGroups,
          .rotary = nn::RotaryOptions{.base = 100},
          .position_bias = nn::RelativePositionBias(
              Range(n.graph, kLength), Range(n.graph, memory), kHeads,
              {.buckets = 4, .max_distance = 4, .bidirectional = false}),
          .window = 4}));
  n.Fetch(nn::MemoryCompressedAttention(
      x, 2,
      {.length = kLength, .heads = kHeads, .d_kv = kKey, .causal = true}));
}

void LocalAttention(Network& n) {
  const Tensor segments = n.Integers({kBatch, kLength}, 2);
  const Tensor x = n.Feed({kBatch, kLength, kModel});
  n.Fetch(nn::LocalSelfAttention(
      x, {.along = {{kLength, 2, 3}}, .segments = segments},
      {.heads = kHeads, .d_kv = kKey, .causal = true, .groups = kGroups}));
  const Tensor q = n.Feed({kBatch, kHeight, kWidth, kHeads, kKey});
  const Tensor k = n.Feed({kBatch, kHeight, kWidth, kKey});
  n.Fetch(nn::LocalAttention(
      q, k, k, {.along = {{kHeight, 1, 2}, {kWidth, 1, 2}}, .d_kv = kKey}));
}

void Layers(Network& n) {
  Tensor x = n.Feed({kExperts, kBatch, kModel});
  x = nn::Dense(x, {kModel}, {kHidden}, {.each = {kExperts}});
  x = nn::DenseProduct(x, {kHidden}, {kModel}, {Tanh, nullptr});
  x = nn::ScaleNorm(x, kModel);
  x = x + nn::Rezero(x, {.initial = 0.5});
  x = nn::ClipActivationGradient(x, 1e-2);
  x = nn::StraightThrough(Floor(x * 4.0 + 0.3) * 0.25, x);
  x = nn::UnitScaledEinsum({x, n.Feed({kModel, kHidden})},
                           {kExperts, kBatch, kHidden});
  x = nn::Jitter(x, 0.1);
  n.Fetch(nn::AnnealedDropout(x, Constant(n.graph, 0.25, kFloat32, {})));
}

void LogitAttention(Network& n) {
  const Tensor x = n.Feed({kBatch, kLength, kModel});
  const nn::AttentionOptions options = {
      .length = kLength, .heads = kHeads, .d_kv = kKey};
  nn::AttentionOptions causal = options;
  causal.causal = true;
  n.Fetch(nn::TalkingHeadsAttention(x, causal,
                                    {.key_heads = {"key_heads", 4},
                                     .value_heads = {"value_heads", 2},
                                     .dynamic_queries = true}));
  n.Fetch(nn::BilinearAttention(x, causal));
  n.Fetch(nn::HybridAttention(x, options));
  n.Fetch(nn::BranchedAttention(x, kWide, Tanh, causal));
  n.Fetch(nn::SynthesizerAttention(
      x, causal,
      {.kind = nn::Synthesis::kFactorizedRandom, .rank = {"rank", 4}}));
  n.Fetch(nn::SynthesizerAttention(
      x, options,
      {.kind = nn::Synthesis::kDense, .mix = nn::SynthesisMix::kWeighted}));
}

void Vocabulary(Network& n) {
  const Dimension vocab{"vocab", 11};
  const Tensor tokens = n.Integers({kBatch, kLength}, 7);
  const Tensor x = n.Feed({kBatch, kLength, kModel});
  const nn::FactorizedTable table =
      nn::MakeFactorizedTable(n.graph, vocab, {"d_embedding", 3}, kModel);
  n.Fetch(nn::FactorizedEmbedding(tokens, table));
  n.Fetch(nn::FactorizedLogits(x, table));
  const nn::AdaptiveTable adaptive = nn::MakeAdaptiveTable(
      n.graph, vocab, kModel, {{.tokens = 4}, {.tokens = 7, .columns = 3}},
      {.softmax = true});
  n.Fetch(nn::AdaptiveEmbedding(tokens, adaptive));
  n.Fetch(nn::AdaptiveLogSoftmax(x, adaptive));
  n.Fetch(nn::AdaptiveCrossEntropy(x, adaptive, tokens));
  n.Fetch(nn::MixtureOfSoftmaxes(x, vocab, {.components = {"components", 3}}));
  n.Fetch(nn::Mixtape(x, vocab, {.d_gate = {"d_gate", 3}, .frequent = 5}));
}

void LightLayers(Network& n) {
  const Tensor x = n.Feed({kBatch, kLength, {"d_model", 6}});
  n.Fetch(nn::LightweightConvolution(x, kLength, kHeads,
                                     {.taps = 4, .causal = true}));
  n.Fetch(nn::ConvolutionBlock(x, kLength, kHeads, true, {.taps = 3}));
  n.Fetch(nn::ProductKeyMemory(x, {.heads = {"memory_heads", 2},
                                   .keys = {"memory_keys", 5},
                                   .d_half = {"d_half", 3},
                                   .neighbours = 2}));
}

void StackVariants(Network& n) {
  const Tensor x = n.Feed({kBatch, kLength, kEven});
  // A norm at the end would make the mean square, of which gradients are taken,
  // all but constant.
  nn::TransformerOptions stack = {
      .attention = {.length = kLength, .heads = kHeads, .d_kv = kKey},
      .d_ff = kWide,
      .final_norm = false};
  const nn::Universal universal = nn::UniversalTransformer(
      x,
      [&](Tensor state) { return state + nn::FeedForward(state, kWide, Gelu); },
      {.steps = 3,
       .halting = nn::Halting::kWeightedMean,
       .threshold = 0.8,
       .length = kLength});
  n.Fetch(universal.output);
  n.Fetch(universal.ponder_cost);
  n.Fetch(nn::FunnelTransformer(
              x, {.blocks = {1, 1}, .repeats = {1, 2}, .stack = stack})
              .output);
  n.Fetch(nn::FunnelUpsample(x, {"length", 13}, 2));
  const nn::EvolvedOptions evolved = {.attention = stack.attention,
                                      .d_ff = kWide};
  n.Fetch(nn::EvolvedEncoderBlock(x, evolved));
  n.Fetch(nn::EvolvedDecoderBlock(x, evolved));
  stack.reversible = true;
  stack.residual.rezero = true;
  n.Fetch(nn::TransformerStack(x, stack).output);
}

void SequenceModels(Network& n) {
  const Tensor tokens = n.Integers({kBatch, kLength}, 5),
               targets = n.Integers({kBatch, {"length", 4}}, 5);
  const nn::TransformerOptions stack = {
      .attention = {.heads = kHeads, .d_kv = kKey}, .d_ff = kWide};
  nn::SequenceModelOptions options = {.vocab = kVocab,
                                      .d_model = kEven,
                                      .positions = nn::PositionKind::kLearned,
                                      .encoder = stack,
                                      .decoder = stack,
                                      .transparent = true,
                                      .ensemble = {"ensemble", 3}};
  const nn::LanguageModel ensemble =
      nn::EncoderDecoderModel(tokens, nn::ShiftRight(targets), options);
  n.Fetch(nn::LanguageModelLoss(ensemble, targets));
  n.Fetch(nn::EnsembleLogits(nn::LanguageModelLogits(ensemble),
                             options.ensemble, kVocab));
  options.ensemble = Dimension();
  const auto model = [&] {
    return nn::DecoderModel(nn::ShiftRight(targets), options);
  };
  n.Fetch(
      nn::MakeStudentTeacher(n.graph, model, model, targets, {.temperature = 2})
          .loss);
}

struct Layout {
  const char* mesh;
  const char* rules;
};
const Layout kLayouts[] = {
    {"x:1", ""},
    {"x:2", "batch:x"},
    {"x:3", "length:x"},
    {"x:2", "length:x, height:x, experts:x"},
    {"x:3", "heads:x, hidden:x"},
    {"x:2,y:2", "batch:x, length:y, height:y"},
    {"x:2,y:3", "length:x+y, width:y"},
    {"x:2,y:2", "groups:x, memory_length:y, width:x+y"},
    {"x:3", "d_kv:x, buckets:x"},
    {"x:2", "d_model:x, height:x"},
    {"x:2,y:2,z:2", "batch:x, length:y, heads:z, height:y, vocab:z"},
    {"x:2,y:2", "vocab:x+y, height:y, width:x, experts:y, hidden:x"},
    {"x:2,y:2", "d_ff:x, memory_slots:x+y, components:x, ensemble:y"},
    {"x:3",
     "memory_keys:x, key_heads:x, value_heads:x, rank:x, d_gate:x, "
     "d_embedding:x"},
    {"x:2", "memory_heads:x, gates:x"},
};

class LayersUnderLayouts : public ::testing::TestWithParam<Layout> {
 protected:
  static void ExpectOracleValues(void (*build)(Network&)) {
    constexpr uint32_t kSeed = 5;
    Network n;
    build(n);
    ASSERT_OK(n.graph.status());
    OracleVariables variables;
    ASSERT_OK(InitializeVariables(n.graph, kSeed, &variables));
    const auto wanted =
        Interpret(n.graph, n.feeds, n.fetches, &variables, {.seed = kSeed});
    ASSERT_OK(wanted);
    const auto session =
        Session::Create(n.graph, GetParam().mesh, GetParam().rules,
                        {.seed = kSeed, .ranks = RankKind::kLocal});
    ASSERT_OK(session);
    ASSERT_OK((*session)->Initialize());
    const auto got = (*session)->Run({.feeds = n.feeds, .fetches = n.fetches});
    ASSERT_OK(got);
    for (size_t f = 0; f < n.fetches.size(); ++f) {
      const std::vector<double>& want = (*wanted)[f].data;
      const std::vector<double> have = (*got)[f].ToDoubles();
      ASSERT_EQ(have.size(), want.size());
      double largest = 1e-3;
      for (const double value : want) {
        largest = std::max(largest, std::abs(value));
      }
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(have[i], want[i], 2e-5 * largest)
            << n.fetches[f].name() << " element " << i;
      }
    }
  }
};

TEST_P(LayersUnderLayouts, Losses) { ExpectOracleValues(Losses); }
TEST_P(LayersUnderLayouts, Positions) { ExpectOracleValues(Positions); }
TEST_P(LayersUnderLayouts, Attention) { ExpectOracleValues(Attention); }
TEST_P(LayersUnderLayouts, LocalAttention) {
  ExpectOracleValues(LocalAttention);
}
TEST_P(LayersUnderLayouts, Layers) { ExpectOracleValues(Layers); }
TEST_P(LayersUnderLayouts, LogitAttention) {
  SKIP_UNDER_SANITIZERS("a large graph of operations that others have");
  ExpectOracleValues(LogitAttention);
}
TEST_P(LayersUnderLayouts, Vocabulary) { ExpectOracleValues(Vocabulary); }
TEST_P(LayersUnderLayouts, LightLayers) { ExpectOracleValues(LightLayers); }
TEST_P(LayersUnderLayouts, StackVariants) {
  SKIP_UNDER_SANITIZERS("a large graph of operations that others have");
  ExpectOracleValues(StackVariants);
}
TEST_P(LayersUnderLayouts, SequenceModels) {
  ExpectOracleValues(SequenceModels);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LayersUnderLayouts,
                         ::testing::ValuesIn(kLayouts));

}  // namespace
}  // namespace mtf::train
