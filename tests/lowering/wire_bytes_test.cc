// SPDX-License-Identifier: Apache-2.0
// Bytes on the wire, compared with the closed formulas of the literature.
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

// Bytes on the wire per layer and rank, in the symbols of the literature: h =
// d_model = heads * d_kv, d_ff = 4 h, T tokens, e bytes per element, P weights
// of a layer. The weights are 12 h^2 in matrices and 4 h in layer norms.
struct Formula {
  int64_t h, tokens, e = 4;
  DType dtype() const { return e == 4 ? kFloat32 : kBFloat16; }
  int64_t matrices() const { return 12 * h * h; }
  int64_t norms() const { return 4 * h; }
  // What the backward pass gathers again: matrices, and the scales of norms.
  int64_t scales() const { return 2 * h; }
};

// The bytes that one more layer adds, all kinds and axes together.
int64_t BytesPerLayer(absl::string_view mesh, absl::string_view layout,
                      const Formula& f) {
  int64_t bytes[2];
  for (int layers : {1, 2}) {
    Graph graph;
    TransformerSizes sizes;
    sizes.layers = layers;
    sizes.batch = 8;
    sizes.length = f.tokens / 8;
    sizes.d_model = f.h;
    sizes.heads = 8;
    sizes.d_kv = f.h / 8;
    sizes.d_ff = 4 * f.h;
    sizes.dtype = f.dtype();
    const Transformer model = BuildTransformer(graph, sizes);
    const auto program =
        LowerText(graph, mesh, layout,
                  {.fetches = {model.loss}, .updates = {model.step}});
    EXPECT_OK(program);
    bytes[layers - 1] = 0;
    for (const auto& [key, count] : CountCollectives(*program)) {
      bytes[layers - 1] += count.second;
    }
  }
  return bytes[1] - bytes[0];
}

constexpr char kMegatron[] = "heads:model, d_ff:model, vocab:model";
constexpr char kZero3[] =
    "batch:data, [parameters], d_model:data, [optimizer], d_model:data";
constexpr char kZero3KeepGathered[] =
    "batch:data, [parameters keep_gathered], d_model:data, [optimizer], "
    "d_model:data";

TEST(WireBytes, DataParallelIsTwiceTheWeights) {
  for (int64_t d : {2, 4, 8}) {
    for (const Formula f : {Formula{8, 64}, Formula{64, 128}}) {
      EXPECT_EQ(BytesPerLayer(absl::StrCat("data:", d), "batch:data", f),
                2 * (d - 1) * (f.matrices() + f.norms()) * f.e / d)
          << d;
    }
  }
}

TEST(WireBytes, MegatronIsEightTimesTheActivations) {
  for (int64_t t : {2, 4, 8}) {
    for (const Formula f : {Formula{8, 64}, Formula{64, 128}}) {
      EXPECT_EQ(BytesPerLayer(absl::StrCat("model:", t), kMegatron, f),
                8 * (t - 1) * f.tokens * f.h * f.e / t)
          << t;
    }
  }
}

// Gathered for the forward and for the backward pass and scattered once. The
// backward pass does not read the bias of a norm.
TEST(WireBytes, Zero3IsThreeTimesTheWeights) {
  for (int64_t d : {2, 4, 8}) {
    for (const Formula f : {Formula{8, 64}, Formula{64, 128}}) {
      EXPECT_EQ(
          BytesPerLayer(absl::StrCat("data:", d), kZero3, f),
          (d - 1) * (3 * f.matrices() + 2 * f.norms() + f.scales()) * f.e / d)
          << d;
    }
  }
}

// Gathered once for both passes and scattered once: the bytes of data
// parallelism.
TEST(WireBytes, Zero3KeepGatheredIsTwiceTheWeights) {
  for (int64_t d : {2, 4, 8}) {
    for (const Formula f : {Formula{8, 64}, Formula{64, 128}}) {
      EXPECT_EQ(BytesPerLayer(absl::StrCat("data:", d), kZero3KeepGathered, f),
                2 * (d - 1) * (f.matrices() + f.norms()) * f.e / d)
          << d;
    }
  }
}

TEST(WireBytes, OnTwoAxesEachReducesAShardOfTheOther) {
  const Formula f{64, 128};
  for (int64_t r : {2, 4}) {
    for (int64_t c : {2, 8}) {
      EXPECT_EQ(BytesPerLayer(absl::StrCat("data:", r, ",model:", c),
                              absl::StrCat("batch:data, ", kMegatron), f),
                8 * (c - 1) * (f.tokens / r) * f.h * f.e / c +
                    2 * (r - 1) * (f.matrices() / c + f.norms()) * f.e / r)
          << r << " x " << c;
    }
  }
}

// Layers store parameters in f32 and compute in the dtype of their input: casts
// of matrices, their gradients and activations are sent in two bytes. Layer
// norms compute in f32.
TEST(WireBytes, In16BitFloats) {
  const Formula f{64, 128, 2};
  for (int64_t n : {2, 4, 8}) {
    const int64_t weights = f.matrices() * 2 + f.norms() * 4;
    EXPECT_EQ(BytesPerLayer(absl::StrCat("data:", n), "batch:data", f),
              2 * (n - 1) * weights / n);
    EXPECT_EQ(BytesPerLayer(absl::StrCat("data:", n), kZero3KeepGathered, f),
              2 * (n - 1) * weights / n);
    EXPECT_EQ(BytesPerLayer(absl::StrCat("data:", n), kZero3, f),
              (n - 1) * (2 * weights + f.matrices() * 2 + f.scales() * 4) / n);
    EXPECT_EQ(BytesPerLayer(absl::StrCat("model:", n), kMegatron, f),
              8 * (n - 1) * f.tokens * f.h * 2 / n);
  }
  const Formula large{12288, 2048, 2};
  EXPECT_EQ(BytesPerLayer("model:8", kMegatron, large), 352321536);
  EXPECT_EQ(BytesPerLayer("data:8", "batch:data", large),
            6341787648 + 2 * 7 * large.norms() * 4 / 8);
}

// The layer of a model of 175 billion weights on 8 devices: twice what the
// literature gives for elements of two bytes.
TEST(WireBytes, LargeModel) {
  const Formula f{12288, 2048};
  EXPECT_EQ(BytesPerLayer("model:8", kMegatron, f), 2 * 352321536);
  EXPECT_EQ(BytesPerLayer("data:8", "batch:data", f),
            12683575296 + 2 * 7 * f.norms() * f.e / 8);
}

// Three numbers per token: maximum, sum and the logit of the target.
TEST(WireBytes, LossOverShardedVocabularyIsThreeNumbersPerToken) {
  Graph graph;
  const Dimension batch{"batch", 4}, vocab{"vocab", 64};
  const Tensor logits = Input(graph, "logits", kFloat32, {batch, vocab});
  const Tensor targets = Input(graph, "targets", kInt32, {batch});
  const Tensor loss = nn::SoftmaxCrossEntropy(logits, vocab, targets);
  EXPECT_EQ(
      Costs(LowerText(graph, "model:8", "vocab:model", {.fetches = {loss}})),
      absl::StrCat("all_reduce model 2x ", 3 * 2 * 7 * 4 * batch.size / 8,
                   "\n"));
}

TEST(WireBytes, EmbeddingOverShardedVocabularyIsOneAllReduce) {
  Graph graph;
  const Dimension batch{"batch", 4}, vocab{"vocab", 64}, model{"d_model", 16};
  const Tensor tokens = Input(graph, "tokens", kInt32, {batch});
  const Tensor x = nn::Embedding(tokens, vocab, model);
  EXPECT_EQ(Costs(LowerText(graph, "model:8", "vocab:model", {.fetches = {x}})),
            absl::StrCat("all_reduce model 1x ",
                         2 * 7 * 4 * batch.size * model.size / 8, "\n"));
}

}  // namespace
}  // namespace mtf::testing
