// SPDX-License-Identifier: Apache-2.0
// Bytes that a plan sends per layer, rank and step, compared with the closed
// formulas of the literature at the sizes of published models. Elements have
// two bytes unless a test says otherwise; bytes are those sent per device: 2
// (n-1)/n S for an all_reduce of S bytes, (n-1)/n S for the others.
//
// In the comments, h is d_model, P = 12 h^2 the weights of a layer, e bytes per
// element, T the tokens of a model parallel group, d, t, r, c, E, C sizes of
// axes. Each test lowers a whole training step: forward, backward and update.
#include <map>
#include <string>
#include <utility>

#include "tests/lowering/gpt_layers.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

using ::testing::UnorderedElementsAre;

// Bytes by kind and axes: {"all_reduce model", 352321536}.
using Bytes = std::map<std::string, int64_t>;

Bytes BytesOf(absl::string_view mesh, absl::string_view layout,
              const GptSizes& sizes, bool trains = true) {
  Graph graph;
  const Gpt gpt = BuildGpt(graph, sizes);
  Targets targets{.fetches = {gpt.loss}};
  if (trains) targets.updates = {gpt.step};
  const auto program = LowerText(graph, mesh, layout, targets);
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
Bytes PerLayer(absl::string_view mesh, absl::string_view layout, GptSizes sizes,
               bool trains = true) {
  const Bytes less = BytesOf(mesh, layout, sizes, trains);
  ++sizes.layers;
  Bytes more = BytesOf(mesh, layout, sizes, trains);
  for (const auto& [kind, bytes] : less) more[kind] -= bytes;
  for (auto i = more.begin(); i != more.end();) {
    i = i->second == 0 ? more.erase(i) : std::next(i);
  }
  return more;
}

int64_t Sum(const Bytes& bytes) {
  int64_t sum = 0;
  for (const auto& [kind, count] : bytes) sum += count;
  return sum;
}

// GPT-3 175B, with T = 2048 tokens in all.
GptSizes LargeSizes() { return {}; }
constexpr int64_t kH = 12288, kT = 2048, kP = 12 * kH * kH;

// The same on `ranks` ranks along the batch, 2048 tokens each.
GptSizes LargeSizesPerRank(int64_t ranks) {
  GptSizes sizes;
  sizes.batch = ranks;
  return sizes;
}

// GPT-2 124M with its vocabulary rounded up to a multiple of 128.
GptSizes SmallSizes() {
  GptSizes sizes;
  sizes.layers = 12;
  sizes.batch = 4;
  sizes.length = 1024;
  sizes.d_model = 768;
  sizes.heads = 12;
  sizes.vocab = 50304;
  sizes.biases = true;
  return sizes;
}

using Pair = std::pair<const std::string, int64_t>;

// 2 (d-1)/d P e, whatever the batch: gradients, once a step.
TEST(GptBytes, DataParallel) {
  EXPECT_THAT(PerLayer("data:8", gpt_layouts::kData, LargeSizesPerRank(8)),
              UnorderedElementsAre(Pair{"all_reduce data", 6'341'787'648}));
  GptSizes wide = LargeSizesPerRank(8);
  wide.dtype = wide.parameters = kFloat32;
  EXPECT_THAT(PerLayer("data:8", gpt_layouts::kData, wide),
              UnorderedElementsAre(Pair{"all_reduce data", 12'683'575'296}));
}

// f32 parameters used in bf16 have bf16 gradients, which are sent as such.
TEST(GptBytes, DataParallelWithParametersOfFourBytes) {
  GptSizes mixed = LargeSizesPerRank(8);
  mixed.parameters = kFloat32;
  EXPECT_THAT(PerLayer("data:8", gpt_layouts::kData, mixed),
              UnorderedElementsAre(Pair{"all_reduce data", 6'341'787'648}));
}

// The same total in two halves: gradients are reduce_scattered, updated
// parameters gathered. Stages 1 and 2 are one plan here: nothing reads
// replicated gradients, so they never exist.
TEST(GptBytes, ZeroStagesOneAndTwo) {
  EXPECT_THAT(PerLayer("data:8", gpt_layouts::kZero1, LargeSizesPerRank(8)),
              UnorderedElementsAre(Pair{"reduce_scatter data", 3'170'893'824},
                                   Pair{"all_gather data", 3'170'893'824}));
  // Replicated f32 parameters are gathered in f32: (d-1)/d P (2 + 4).
  // Parameters stored in shards (stage 3) are gathered in the dtype of their
  // use.
  GptSizes mixed = LargeSizesPerRank(8);
  mixed.parameters = kFloat32;
  EXPECT_THAT(PerLayer("data:8", gpt_layouts::kZero1, mixed),
              UnorderedElementsAre(Pair{"reduce_scatter data", 3'170'893'824},
                                   Pair{"all_gather data", 6'341'787'648}));
}

// 3 (d-1)/d P e: gathers for the forward pass, again for the backward pass, and
// scatters gradients. With the gathered copy kept until the backward pass, 2
// (d-1)/d P e: a third less on the wire for P e bytes of memory per layer.
TEST(GptBytes, ZeroStageThree) {
  for (DType parameters : {kBFloat16, kFloat32}) {
    GptSizes sizes = LargeSizesPerRank(8);
    sizes.parameters = parameters;
    const Bytes bytes = PerLayer("data:8", gpt_layouts::kZero3, sizes);
    EXPECT_EQ(Sum(bytes), 9'512'681'472);
    EXPECT_THAT(bytes, UnorderedElementsAre(
                           Pair{"reduce_scatter data", 3'170'893'824},
                           Pair{"all_gather data", 2 * 3'170'893'824}));
    const Bytes kept =
        PerLayer("data:8", gpt_layouts::kZero3KeepGathered, sizes);
    EXPECT_EQ(Sum(kept), 6'341'787'648);
    EXPECT_THAT(kept,
                UnorderedElementsAre(Pair{"reduce_scatter data", 3'170'893'824},
                                     Pair{"all_gather data", 3'170'893'824}));
  }
}

// bf16 parameters with f32 master copies: layers send bf16, parameters are
// gathered in bf16, and gradients are sent in the dtype they are computed in,
// (d-1)/d P 4 in f32.
TEST(GptBytes, MixedPrecision) {
  for (DType gradients : {kFloat32, kBFloat16}) {
    GptSizes sizes = LargeSizesPerRank(8);
    sizes.master = kFloat32;
    sizes.gradients = gradients;
    const int64_t gathered = 3'170'893'824;
    const int64_t scattered =
        gathered * DTypeSize(gradients) / DTypeSize(kBFloat16);
    EXPECT_THAT(PerLayer("data:8", gpt_layouts::kData, sizes),
                UnorderedElementsAre(Pair{"all_reduce data", 2 * scattered}));
    EXPECT_THAT(PerLayer("data:8", gpt_layouts::kZero1, sizes),
                UnorderedElementsAre(Pair{"reduce_scatter data", scattered},
                                     Pair{"all_gather data", gathered}));
    EXPECT_THAT(PerLayer("data:8", gpt_layouts::kZero3, sizes),
                UnorderedElementsAre(Pair{"reduce_scatter data", scattered},
                                     Pair{"all_gather data", 2 * gathered}));
    EXPECT_THAT(PerLayer("data:8", gpt_layouts::kZero3KeepGathered, sizes),
                UnorderedElementsAre(Pair{"reduce_scatter data", scattered},
                                     Pair{"all_gather data", gathered}));
    sizes.batch = 1;
    EXPECT_THAT(PerLayer("model:8", gpt_layouts::kMegatron, sizes),
                UnorderedElementsAre(Pair{"all_reduce model", 352'321'536}));
    EXPECT_THAT(
        PerLayer("model:8", gpt_layouts::kSequence, sizes),
        UnorderedElementsAre(Pair{"all_gather model", 176'160'768},
                             Pair{"reduce_scatter model", 176'160'768}));
  }
}

// Without a backward pass there is no second use.
TEST(GptBytes, ZeroStageThreeForInference) {
  for (const char* layout :
       {gpt_layouts::kZero3, gpt_layouts::kZero3KeepGathered}) {
    EXPECT_THAT(
        PerLayer("data:8", layout, LargeSizesPerRank(8), /*trains=*/false),
        UnorderedElementsAre(Pair{"all_gather data", 3'170'893'824}));
  }
}

// 4 all_reduces of T h: 8 (t-1)/t T h e, half of it forward.
TEST(GptBytes, Megatron) {
  EXPECT_THAT(PerLayer("model:8", gpt_layouts::kMegatron, LargeSizes()),
              UnorderedElementsAre(Pair{"all_reduce model", 352'321'536}));
  EXPECT_THAT(PerLayer("model:8", gpt_layouts::kMegatron, LargeSizes(),
                       /*trains=*/false),
              UnorderedElementsAre(Pair{"all_reduce model", 176'160'768}));
}

// 4 all_gathers and 4 reduce_scatters: the same bytes. The gathered values are
// kept for the gradients of weights. The published variant that stores only
// shards gathers twice more, 10 (t-1)/t T h e; that is a choice of
// rematerialization, not of the layout.
TEST(GptBytes, SequenceParallel) {
  EXPECT_THAT(PerLayer("model:8", gpt_layouts::kSequence, LargeSizes()),
              UnorderedElementsAre(Pair{"all_gather model", 176'160'768},
                                   Pair{"reduce_scatter model", 176'160'768}));
  EXPECT_THAT(PerLayer("model:8", gpt_layouts::kSequence, LargeSizes(),
                       /*trains=*/false),
              UnorderedElementsAre(Pair{"all_gather model", 88'080'384},
                                   Pair{"reduce_scatter model", 88'080'384}));
}

// Biases added before the length is sharded again are added to shards: the
// reduction before them stays a reduce_scatter. The norms, which see shards of
// the length, have gradients of 4 h to reduce.
TEST(GptBytes, SequenceParallelWithBiases) {
  GptSizes sizes = LargeSizes();
  sizes.biases = true;
  EXPECT_THAT(
      PerLayer("model:8", gpt_layouts::kSequence, sizes),
      UnorderedElementsAre(Pair{"all_gather model", 176'160'768},
                           Pair{"reduce_scatter model", 176'160'768},
                           Pair{"all_reduce model", 2 * 7 * 4 * kH * 2 / 8}));
}

// Mesh-TensorFlow's: 8 (c-1)/c (T/r) h e + 2 (r-1)/r (P/c) e.
TEST(GptBytes, BatchOverRowsAndLayersOverColumns) {
  EXPECT_THAT(
      PerLayer("data:4,model:8", gpt_layouts::kTwoAxes, LargeSizesPerRank(4)),
      UnorderedElementsAre(Pair{"all_reduce model", 352'321'536},
                           Pair{"all_reduce data", 679'477'248}));
}

// 3 (X-1)/X (P/Y) e + 8 (Y-1)/Y (T/X) h e.
TEST(GptBytes, WeightsOverBothAxes) {
  for (int64_t x : {2, 4}) {
    for (int64_t y : {2, 8}) {
      const int64_t half = (x - 1) * (kP / y) * 2 / x;
      EXPECT_THAT(
          PerLayer(absl::StrCat("data:", x, ",model:", y),
                   gpt_layouts::kTwoAxesOfWeights, LargeSizesPerRank(x)),
          UnorderedElementsAre(
              Pair{"all_reduce model", 8 * (y - 1) * kT * kH * 2 / y},
              Pair{"all_gather data", 2 * half},
              Pair{"reduce_scatter data", half}))
          << x << " x " << y;
    }
  }
}

// 4 all_to_alls, 4 (E-1)/E T k c_f h e: to the experts and back, forward and
// backward. The weights of experts stay with their tokens, so only attention (4
// h^2) and the router (h E) have gradients to reduce over the data axis.
TEST(GptBytes, ExpertParallel) {
  GptSizes sizes = LargeSizesPerRank(8);
  sizes.experts = 8;
  EXPECT_EQ(sizes.capacity(), 512);
  EXPECT_THAT(
      PerLayer("data:8", gpt_layouts::kExperts, sizes),
      UnorderedElementsAre(
          Pair{"all_to_all data", 352'321'536},
          Pair{"all_reduce data", 2 * 7 * (4 * kH * kH + 8 * kH) * 2 / 8}));
  EXPECT_THAT(PerLayer("data:8", gpt_layouts::kExperts, sizes,
                       /*trains=*/false),
              UnorderedElementsAre(Pair{"all_to_all data", 176'160'768}));
}

// Forward 4 all_to_alls, 4 (C-1)/C (S/C) h e: queries, keys, values, result.
// Backward as many, and the gradients of weights, which are replicated.
TEST(GptBytes, AllToAllAttention) {
  GptSizes sizes = LargeSizes();
  sizes.length = 16384;
  EXPECT_THAT(PerLayer("model:8", gpt_layouts::kAllToAll, sizes,
                       /*trains=*/false),
              UnorderedElementsAre(Pair{"all_to_all model", 176'160'768}));
  EXPECT_THAT(PerLayer("model:8", gpt_layouts::kAllToAll, sizes),
              UnorderedElementsAre(Pair{"all_to_all model", 2 * 176'160'768},
                                   Pair{"all_reduce model", 6'341'787'648}));
}

// Three f32 numbers for each token: 3 x 2 (t-1)/t x 4 T.
TEST(GptBytes, LossOverShardedVocabulary) {
  Graph graph;
  const Dimension length{"length", kT}, vocab{"vocab", 51200};
  const Tensor logits = Input(graph, "logits", kBFloat16, {length, vocab});
  const Tensor targets = Input(graph, "targets", kInt32, {length});
  const Tensor loss = nn::SoftmaxCrossEntropy(logits, vocab, targets);
  EXPECT_EQ(
      Costs(LowerText(graph, "model:8", "vocab:model", {.fetches = {loss}})),
      "all_reduce model 2x 43008\n");
}

// One all_reduce of T h in the dtype of the result, or half of that as a
// reduce_scatter if the length is sharded afterwards.
TEST(GptBytes, EmbeddingWithShardedVocabulary) {
  const Dimension length{"length", kT}, vocab{"vocab", 51200},
      d_model{"d_model", kH};
  for (DType parameters : {kBFloat16, kFloat32}) {
    Graph graph;
    const Tensor tokens = Input(graph, "tokens", kInt32, {length});
    const Tensor table =
        Variable(graph, "table", Zeros(graph, parameters, {vocab, d_model}));
    const Tensor x = nn::Embedding(tokens, vocab, d_model,
                                   {.dtype = kBFloat16, .table = table});
    EXPECT_EQ(
        Costs(LowerText(graph, "model:8", "vocab:model", {.fetches = {x}})),
        "all_reduce model 1x 88080384\n");
    const Tensor sharded = Rename(x, "length", "outer_length") * 2.0;
    EXPECT_EQ(
        Costs(LowerText(graph, "model:8", "vocab:model, outer_length:model",
                        {.fetches = {sharded}, .fetch_shards = true})),
        "reduce_scatter model 1x 44040192\n");
  }
}

// The bytes outside the layers: the embedding and the gradient of the logits,
// an all_reduce of T h each, and the loss.
TEST(GptBytes, MegatronOutsideTheLayers) {
  const GptSizes sizes = LargeSizes();
  EXPECT_EQ(Sum(BytesOf("model:8", gpt_layouts::kMegatron, sizes)) -
                Sum(PerLayer("model:8", gpt_layouts::kMegatron, sizes)),
            2 * 88'080'384 + 43'008);
}

TEST(GptBytes, SmallModel) {
  // The whole model: 124 475 904 parameters, and the loss, one f32.
  EXPECT_EQ(Sum(BytesOf("data:2", gpt_layouts::kData, SmallSizes())),
            248'951'808 + 4);
  EXPECT_EQ(Sum(PerLayer("data:2", gpt_layouts::kData, SmallSizes())),
            14'175'744);
  GptSizes wide = SmallSizes();
  wide.dtype = wide.parameters = kFloat32;
  EXPECT_EQ(Sum(BytesOf("data:2", gpt_layouts::kData, wide)), 497'903'616 + 4);
  EXPECT_EQ(Sum(PerLayer("model:2", gpt_layouts::kMegatron, SmallSizes())),
            25'165'824);
}

// The formulas hold for every axis size.
TEST(GptBytes, ForEveryAxisSize) {
  for (int64_t n : {2, 4, 8, 16}) {
    GptSizes small;
    small.batch = n;
    small.length = 64;
    small.d_model = 64 * n;
    small.heads = n;
    small.vocab = 64 * n;
    const int64_t h = small.d_model, tokens = n * small.length,
                  weights = 12 * h * h;
    const std::string data = absl::StrCat("data:", n),
                      model = absl::StrCat("model:", n);
    EXPECT_EQ(Sum(PerLayer(data, gpt_layouts::kData, small)),
              2 * (n - 1) * weights * 2 / n);
    EXPECT_EQ(Sum(PerLayer(data, gpt_layouts::kZero1, small)),
              2 * (n - 1) * weights * 2 / n);
    EXPECT_EQ(Sum(PerLayer(data, gpt_layouts::kZero3, small)),
              3 * (n - 1) * weights * 2 / n);
    EXPECT_EQ(Sum(PerLayer(data, gpt_layouts::kZero3KeepGathered, small)),
              2 * (n - 1) * weights * 2 / n);
    EXPECT_EQ(Sum(PerLayer(model, gpt_layouts::kMegatron, small)),
              8 * (n - 1) * tokens * h * 2 / n);
    EXPECT_EQ(Sum(PerLayer(model, gpt_layouts::kSequence, small)),
              8 * (n - 1) * tokens * h * 2 / n);
    EXPECT_EQ(
        Sum(PerLayer(model, gpt_layouts::kAllToAll, small, /*trains=*/false)),
        4 * (n - 1) * (tokens / n) * h * 2 / n);
    GptSizes mixture = small;
    mixture.experts = n;
    EXPECT_EQ(
        Sum(PerLayer(data, gpt_layouts::kExperts, mixture, /*trains=*/false)),
        2 * (n - 1) * (tokens / n) * mixture.choices * h * 2 / n);
  }
}

}  // namespace
}  // namespace mtf::testing
