// SPDX-License-Identifier: Apache-2.0
//
// The presets of published layouts on the models of examples/: bytes per layer,
// compared with the formulas of docs/published_layouts.md. T is the tokens of a
// step, h d_model, e the bytes of an activation, n ranks.
#include <iterator>
#include <map>
#include <ostream>
#include <string>

#include "nn/attention/attention.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/layer_norm.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// examples/transformer_lm.cc and examples/gpt2.cc by the sizes of their flags.
struct Example {
  const char* name;
  int64_t batch, length, d_model, heads, vocab;
  bool biases;  // as in GPT-2
  DType dtype;  // of activations; parameters are f32

  int64_t tokens() const { return batch * length; }
  // Per layer: kernels, norms, and the biases of six kernels.
  int64_t parameters() const {
    return 12 * d_model * d_model + 4 * d_model + (biases ? 9 * d_model : 0);
  }
  // Of a layer: kernels have gradients in the dtype of their use, norms in f32.
  int64_t gradient_bytes() const {
    const int64_t norms = 4 * d_model;
    return (parameters() - norms) * DTypeSize(dtype) +
           norms * DTypeSize(kFloat32);
  }
  friend std::ostream& operator<<(std::ostream& out, const Example& e) {
    return out << e.name << " in " << DTypeName(e.dtype);
  }
};
constexpr Example kExamples[] = {
    {"transformer_lm", 16, 64, 128, 4, 256, false, kFloat32},
    {"transformer_lm", 16, 64, 128, 4, 256, false, kBFloat16},
    {"gpt2 124M", 4, 1024, 768, 12, 50304, true, kFloat32},
    {"gpt2 124M", 4, 1024, 768, 12, 50304, true, kBFloat16},
    {"gpt2 350M", 8, 1024, 1024, 16, 50304, true, kBFloat16},
};

// By kind and axes: "all_reduce model".
using Bytes = std::map<std::string, int64_t>;

Bytes BytesOf(const Example& e, int layers, absl::string_view mesh,
              absl::string_view preset, AttentionSupport attention) {
  Graph graph;
  const PrecisionScope precision(graph, {.activations = e.dtype});
  const Dimension batch{"batch", e.batch}, length{"length", e.length},
      d_model{"d_model", e.d_model}, heads{"heads", e.heads},
      d_kv{"d_kv", e.d_model / e.heads}, d_ff{"d_ff", 4 * e.d_model},
      vocab{"vocab", e.vocab};
  const Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
  const Tensor targets = Input(graph, "targets", kInt32, {batch, length});
  const Tensor table = nn::EmbeddingTable(graph, vocab, d_model);
  Tensor x = nn::Embedding(tokens, vocab, d_model, {.table = table});
  x = nn::PositionEmbedding(x, length, d_model);
  for (int i = 0; i < layers; ++i) {
    Scope layer(graph, absl::StrCat("layer_", i));
    x = x + nn::SelfAttention(nn::LayerNorm(x, d_model), {.length = length,
                                                          .heads = heads,
                                                          .d_kv = d_kv,
                                                          .causal = true,
                                                          .bias = e.biases});
    x = x + nn::FeedForward(nn::LayerNorm(x, d_model), d_ff, Gelu,
                            {.bias = e.biases});
  }
  const Tensor loss = nn::CrossEntropy(nn::LayerNorm(x, d_model), vocab,
                                       targets, {.kernel = table});
  const Tensor step = nn::AdamW().Minimize(loss);
  const auto program = LowerText(
      graph, mesh, LayoutRules::Preset(preset)->ToString(),
      {.fetches = {loss}, .updates = {step}}, {.attention = attention});
  EXPECT_OK(program);
  Bytes bytes;
  if (!program.ok()) return bytes;
  for (const auto& [key, count] : CountCollectives(*program)) {
    bytes[absl::StrCat(CollectiveName(key.first), " ",
                       program->mesh.AxisNames(ListOf(key.second)))] =
        count.second;
  }
  return bytes;
}

// The bytes of one more layer.
Bytes PerLayer(const Example& e, absl::string_view mesh,
               absl::string_view preset,
               AttentionSupport attention = AttentionSupport::kNone) {
  Bytes more = BytesOf(e, 2, mesh, preset, attention);
  for (const auto& [kind, bytes] : BytesOf(e, 1, mesh, preset, attention)) {
    more[kind] -= bytes;
  }
  for (auto i = more.begin(); i != more.end();) {
    i = i->second == 0 ? more.erase(i) : std::next(i);
  }
  return more;
}

class PresetBytes : public ::testing::TestWithParam<Example> {};
INSTANTIATE_TEST_SUITE_P(Examples, PresetBytes, ::testing::ValuesIn(kExamples));

// 8 (n-1)/n T h e, and the gradients of the norms, which see shards.
TEST_P(PresetBytes, MegatronSequence) {
  const Example& e = GetParam();
  const int64_t block = e.tokens() * e.d_model * DTypeSize(e.dtype);
  for (int64_t n : {2, 4}) {
    const int64_t norms = 4 * e.d_model * DTypeSize(kFloat32);
    EXPECT_THAT(PerLayer(e, absl::StrCat("model:", n), "megatron_sequence"),
                UnorderedElementsAre(
                    Pair("all_gather model", 4 * (n - 1) * block / n),
                    Pair("reduce_scatter model", 4 * (n - 1) * block / n),
                    Pair("all_reduce model", 2 * (n - 1) * norms / n)))
        << n;
  }
}

// As many bytes as Megatron's all_reduces; there norms are replicated.
TEST_P(PresetBytes, MegatronSequenceSendsAsMuchAsMegatron) {
  const Example& e = GetParam();
  const int64_t block = e.tokens() * e.d_model * DTypeSize(e.dtype);
  EXPECT_THAT(
      PerLayer(e, "model:4", "megatron"),
      UnorderedElementsAre(Pair("all_reduce model", 8 * 3 * block / 4)));
}

// 8 (n-1)/n (T/n) h e, and 2 (n-1)/n P e of gradients: of kernels in the dtype
// of their use, of norms in f32.
TEST_P(PresetBytes, AllToAll) {
  const Example& e = GetParam();
  const int64_t block = e.tokens() * e.d_model * DTypeSize(e.dtype);
  for (int64_t n : {2, 4}) {
    const int64_t gradients = e.gradient_bytes();
    EXPECT_THAT(PerLayer(e, absl::StrCat("data:1,model:", n), "all_to_all"),
                UnorderedElementsAre(
                    Pair("all_to_all model", 8 * (n - 1) * (block / n) / n),
                    Pair("all_reduce model", 2 * (n - 1) * gradients / n)))
        << n;
  }
}

// In a ring keys and values go round twice, n - 1 places each time, and their
// gradients once and home, n places: (6 n - 4) T/n h e. Queries, keys, values,
// the output and their gradients are put into stripes or back,
// 8 (n-1)/n (T/n) h e. Parameters are replicated, as in all_to_all.
TEST_P(PresetBytes, Ring) {
  const Example& e = GetParam();
  const int64_t block = e.tokens() * e.d_model * DTypeSize(e.dtype);
  for (int64_t n : {2, 4}) {
    const int64_t gradients = e.gradient_bytes();
    EXPECT_THAT(PerLayer(e, absl::StrCat("data:1,model:", n), "ring",
                         AttentionSupport::kAll),
                UnorderedElementsAre(
                    Pair("collective_permute model", (6 * n - 4) * block / n),
                    Pair("all_to_all model", 8 * (n - 1) * (block / n) / n),
                    Pair("all_reduce model", 2 * (n - 1) * gradients / n)))
        << n;
  }
}

}  // namespace
}  // namespace mtf::testing
