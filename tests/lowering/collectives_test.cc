// SPDX-License-Identifier: Apache-2.0
//
// Collectives are minimal: which ones a program needs under a layout, how often
// and with how many bytes. Every change of a number here is a change of speed
// that somebody must have meant.
#include <string>
#include <vector>

#include "lowering/print_program.h"
#include "nn/dense.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/gradients.h"
#include "ops/pad.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/slice.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// ---------------------------------------------------------------- one matmul

const Dimension kBatch{"batch", 8}, kHidden{"hidden", 16}, kOut{"out", 4};

// Two products that sum over "hidden".
struct Products {
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {kBatch, kHidden});
  Tensor v = Input(graph, "v", kFloat32, {kHidden, kOut});
  Tensor w = Input(graph, "w", kFloat32, {kHidden, kOut});
  Tensor y = Einsum({x, v}, {kBatch, kOut});
  Tensor z = Einsum({x, w}, {kBatch, kOut});

  std::string CostsOf(Tensor fetch, absl::string_view layout) {
    return Costs(LowerText(graph, "data:2,model:4", layout,
                           {.fetches = {fetch}, .fetch_shards = true}));
  }
};

TEST(Collectives, AMatmulOverACutDimensionIsOneAllReduce) {
  Products p;
  // 2 (n-1)/n of 8 x 4 floats.
  EXPECT_EQ(p.CostsOf(p.y, "hidden:model"), "all_reduce model 1x 192\n");
}

TEST(Collectives, AMatmulOverAWholeDimensionIsNone) {
  Products p;
  EXPECT_EQ(p.CostsOf(p.y, "batch:data, out:model"), "");
}

TEST(Collectives, BatchAndSumCutOverTwoAxesReduceOneShard) {
  Products p;
  EXPECT_EQ(p.CostsOf(p.y, "batch:data, hidden:model"),
            "all_reduce model 1x 96\n");
}

TEST(Collectives, AReaderThatWantsTheSumCutGetsOneReduceScatter) {
  Products p;
  const Tensor cut = Relu(Rename(p.y, "out", "vocab"));
  EXPECT_EQ(p.CostsOf(cut, "hidden:model, vocab:model"),
            "reduce_scatter model 1x 96\n");
}

TEST(Collectives, APendingSumIsCarriedThroughWhatIsLinear) {
  struct Case {
    const char* name;
    Tensor (*make)(Products&);
    const char* costs;
  };
  const Case kCases[] = {
      {"sum", [](Products& p) { return p.y + p.z; },
       "all_reduce model 1x 192\n"},
      {"difference", [](Products& p) { return p.y - p.z; },
       "all_reduce model 1x 192\n"},
      {"scaled sum", [](Products& p) { return 0.5 * p.y - p.z / 3.0; },
       "all_reduce model 1x 192\n"},
      {"sum with something whole between",
       [](Products& p) {
         return p.y + Input(p.graph, "u", kFloat32, {kBatch, kOut}) + p.z;
       },
       "all_reduce model 1x 192\n"},
      {"sum with the sum of another",
       [](Products& p) { return p.y + ReduceSum(p.v, {}); },
       "all_reduce model 1x 192\n"},
      {"transpose",
       [](Products& p) {
         return Transpose(p.y, {kOut, kBatch}) + p.z;
       },
       "all_reduce model 1x 192\n"},
      {"slices",
       [](Products& p) {
         return Slice(p.y, "out", 0, 1) - Slice(p.z, "out", 3, 1);
       },
       "all_reduce model 1x 48\n"},
      {"rename",
       [](Products& p) {
         return Rename(p.y, "out", "o2") - Rename(p.z, "out", "o2");
       },
       "all_reduce model 1x 192\n"},
      {"merge",
       [](Products& p) {
         return -MergeDimensions(p.y, {"batch", "out"}, "all");
       },
       "all_reduce model 1x 192\n"},
      {"pad with zeros", [](Products& p) { return Pad(p.y, "out", 0, 1, 0); },
       "all_reduce model 1x 240\n"},
      {"concat",
       [](Products& p) {
         return Concat({p.y, p.z}, "out");
       },
       "all_reduce model 1x 384\n"},
      {"sum over what is left",
       [](Products& p) { return ReduceSum(p.y, {kOut}); },
       "all_reduce model 1x 24\n"},
      {"mean over what is left",
       [](Products& p) { return ReduceMean(p.y, {kOut}); },
       "all_reduce model 1x 24\n"},
  };
  for (const Case& c : kCases) {
    Products p;
    EXPECT_EQ(p.CostsOf(c.make(p), "hidden:model"), c.costs) << c.name;
  }
}

TEST(Collectives, APendingSumIsReducedBeforeWhatIsNot) {
  struct Case {
    const char* name;
    Tensor (*make)(Products&);
    const char* costs;
  };
  const Case kCases[] = {
      {"function", [](Products& p) { return Relu(p.y); },
       "all_reduce model 1x 192\n"},
      // Both are made before either is read: one call for two sums.
      {"product", [](Products& p) { return p.y * p.z; },
       "all_reduce model 1x 384\n"},
      {"maximum", [](Products& p) { return ReduceMax(p.y, {kOut}); },
       "all_reduce model 1x 192\n"},
      {"broadcast",
       [](Products& p) {
         return Broadcast(p.y, {{"c", 9}, kBatch, kOut});
       },
       "all_reduce model 1x 192\n"},
  };
  for (const Case& c : kCases) {
    Products p;
    EXPECT_EQ(p.CostsOf(c.make(p), "hidden:model"), c.costs) << c.name;
  }
}

TEST(Collectives, ACastUpIsReducedInTheWiderType) {
  Graph graph;
  const Tensor x = Input(graph, "x", kBFloat16, {kBatch, kHidden});
  const Tensor v = Input(graph, "v", kBFloat16, {kHidden, kOut});
  const Tensor y = Einsum({x, v}, {kBatch, kOut});
  const auto costs_of = [&](Tensor fetch) {
    return Costs(LowerText(graph, "model:4", "hidden:model",
                           {.fetches = {fetch}, .fetch_shards = true}));
  };
  EXPECT_EQ(costs_of(y), "all_reduce model 1x 96\n");
  EXPECT_EQ(costs_of(Cast(y, kFloat32)), "all_reduce model 1x 192\n");
}

TEST(Collectives, AMaximumOverACutDimensionIsOneAllReduce) {
  Products p;
  EXPECT_EQ(p.CostsOf(ReduceMax(p.x, {kBatch}), "hidden:model"),
            "all_reduce model 1x 48\n");
}

TEST(Collectives, AFetchIsGatheredAndShardsAreNot) {
  Products p;
  const std::string layout = "batch:data, out:model";
  EXPECT_EQ(p.CostsOf(p.y, layout), "");
  EXPECT_EQ(
      Costs(LowerText(p.graph, "data:2,model:4", layout, {.fetches = {p.y}})),
      // 4 rows of 1 float to the other, then 8 of them to three others.
      "all_gather data 1x 16\nall_gather model 1x 96\n");
}

TEST(Collectives, AWeightThatIsUsedTwiceIsReducedOnce) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kHidden});
  const Tensor w =
      Variable(graph, "w", Zeros(graph, kFloat32, {kHidden, kOut}));
  const Tensor once = Einsum({x, w}, {kBatch, kOut});
  const Tensor twice = Einsum({Tanh(x), w}, {kBatch, kOut});
  const Tensor loss = ReduceMean(Square(once * twice), {});
  const Tensor gradient = Gradients(loss, {w})[0];
  const auto program =
      LowerText(graph, "data:4", "batch:data", {.fetches = {gradient}});
  EXPECT_EQ(Costs(program), "all_reduce data 1x 384\n");
  // Two products, added before anything is sent.
  ASSERT_OK(program);
  EXPECT_THAT(PrintProgram(*program),
              HasSubstr(" = map(%einsum_1_grad_1, %einsum_grad_1) add\n"));
}

// ----------------------------------------------------------------- a block

// Attention and feed-forward under Megatron's cuts, forward and backward.
TEST(Collectives, AMegatronBlockIsTwoAllReducesForwardAndTwoBackward) {
  Graph graph;
  const Dimension batch{"batch", 2}, length{"length", 4}, model{"d_model", 8},
      heads{"heads", 4}, d_kv{"d_kv", 2}, d_ff{"d_ff", 32};
  const Tensor in = Input(graph, "in", kFloat32, {batch, length, model});
  const Tensor dout = Input(graph, "dout", kFloat32, {batch, length, model});
  Tensor x =
      in + nn::SelfAttention(nn::LayerNorm(in, model),
                             {.length = length, .heads = heads, .d_kv = d_kv});
  x = x + nn::FeedForward(nn::LayerNorm(x, model), d_ff, Gelu);
  std::vector<Tensor> wanted = {in};
  for (const VariableInfo& variable : graph.variables()) {
    wanted.push_back(variable.read);
  }
  std::vector<Tensor> all = Gradients(x, wanted, dout);
  all.push_back(x);
  ASSERT_OK(graph.status());
  const std::string layout = "heads:model, d_ff:model";
  // Each of them 2 (n-1)/n of 2 x 4 x 8 floats.
  EXPECT_EQ(Costs(LowerText(graph, "model:4", layout, {.fetches = {x}})),
            "all_reduce model 2x 768\n");
  EXPECT_EQ(Costs(LowerText(graph, "model:4", layout,
                            {.fetches = all, .fetch_shards = true})),
            "all_reduce model 4x 1536\n");
}

// ----------------------------------------------------------- a training step

// What `preset` sends in a training step of `layers` layers.
std::string StepCosts(absl::string_view preset, int64_t ranks, int layers) {
  Graph graph;
  TransformerSizes sizes;
  sizes.layers = layers;
  const Transformer model = BuildTransformer(graph, sizes);
  return Costs(LowerPreset(graph, preset, ranks,
                           {.fetches = {model.loss}, .updates = {model.step}}));
}

TEST(TrainingStep, OneDeviceSendsNothing) {
  EXPECT_EQ(StepCosts("single", 1, 2), "");
  EXPECT_EQ(StepCosts("single", 4, 2), "");
}

// Four all_reduces per block, one each for the embedding and the gradient of
// the logits, and two in the loss: its maximum, then both sums together.
TEST(TrainingStep, MegatronNeedsFourAllReducesPerBlock) {
  EXPECT_EQ(StepCosts("megatron", 4, 1), "all_reduce model 8x 39168\n");
  EXPECT_EQ(StepCosts("megatron", 4, 2), "all_reduce model 12x 63744\n");
  EXPECT_EQ(StepCosts("megatron", 4, 4), "all_reduce model 20x 112896\n");
}

TEST(TrainingStep, DataParallelGradientsAndTheLossAreOneCall) {
  EXPECT_EQ(StepCosts("data", 4, 1), "all_reduce data 1x 10950\n");
  EXPECT_EQ(StepCosts("data", 4, 2), "all_reduce data 1x 15750\n");
  EXPECT_EQ(StepCosts("data", 4, 4), "all_reduce data 1x 25350\n");
}

TEST(TrainingStep, DataAndModelAddUp) {
  EXPECT_EQ(StepCosts("data_model", 4, 2),
            "all_reduce data 1x 5380\nall_reduce model 12x 21248\n");
}

// Parameters are gathered for use, gradients scattered; the all_reduce is that
// of the loss, one float.
TEST(TrainingStep, Zero3GathersParametersAndScattersGradients) {
  EXPECT_EQ(StepCosts("zero3", 4, 2),
            "all_reduce data 1x 6\n"
            "all_gather data 22x 7872\n"
            "reduce_scatter data 1x 7872\n");
}

TEST(TrainingStep, NoParameterIsAllReducedUnderZero3) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const auto program = LowerPreset(
      graph, "zero3", 4, {.fetches = {model.loss}, .updates = {model.step}});
  ASSERT_OK(program);
  for (const Instruction& instruction : program->instructions) {
    if (instruction.opcode != Opcode::kAllReduce) continue;
    for (int operand : instruction.operands) {
      EXPECT_EQ(program->values[operand].shape.rank(), 0)
          << PrintInstruction(*program, instruction);
    }
  }
  // At rest every parameter and all its state is cut.
  int whole = 0;
  for (const ProgramVariable& variable : program->variables) {
    if (variable.layout.Sharded() == 0) ++whole;
  }
  EXPECT_EQ(whole, 1) << "only the number of the step is whole";
}

TEST(TrainingStep, SequenceGathersKeysAndValuesOnly) {
  EXPECT_EQ(StepCosts("sequence", 4, 2),
            "all_reduce data 1x 1024\n"
            "all_reduce model 2x 8192\n"
            "all_reduce data+model 1x 14214\n"
            "all_gather model 2x 2048\n");
}

TEST(TrainingStep, ThreeAxesDoAllThree) {
  EXPECT_EQ(StepCosts("three_axes", 8, 2),
            "all_reduce data 1x 512\n"
            "all_reduce sequence 2x 4096\n"
            "all_reduce data+sequence 1x 7302\n"
            "all_reduce model 12x 12672\n"
            "all_gather sequence 2x 2048\n");
}

// The layouts of the values between blocks.
std::vector<std::string> ResidualLayouts(absl::string_view preset,
                                         int64_t ranks) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const auto program = LowerPreset(
      graph, preset, ranks, {.fetches = {model.loss}, .updates = {model.step}});
  std::vector<std::string> layouts;
  if (!program.ok()) return {ErrorText(program.status())};
  for (const Tensor& residual : model.residuals) {
    for (const ProgramValue& value : program->values) {
      if (value.name != residual.name()) continue;
      layouts.push_back(LayoutText(program->mesh, value.shape, value.layout));
    }
  }
  return layouts;
}

TEST(TrainingStep, SequenceCutsActivationsBetweenBlocksOverLength) {
  const std::vector<std::string> layouts = ResidualLayouts("sequence", 4);
  EXPECT_EQ(layouts.size(), 2u);
  EXPECT_THAT(layouts, Each("batch:8/data, length:16/model, d_model:8"));
}

TEST(TrainingStep, ThreeAxesCutActivationsBetweenBlocksTwice) {
  const std::vector<std::string> layouts = ResidualLayouts("three_axes", 8);
  EXPECT_EQ(layouts.size(), 2u);
  EXPECT_THAT(layouts, Each("batch:8/data, length:16/sequence, d_model:8"));
}

TEST(TrainingStep, MegatronKeepsActivationsBetweenBlocksWhole) {
  const std::vector<std::string> layouts = ResidualLayouts("megatron", 4);
  EXPECT_EQ(layouts.size(), 2u);
  EXPECT_THAT(layouts, Each("batch:8, length:16, d_model:8"));
}

// ------------------------------------------------------------ closed formulas

// Bytes on the wire per layer and rank, in the symbols of the literature: h =
// d_model = heads * d_kv, d_ff = 4 h, T tokens, e bytes per element, P weights
// of a layer. The weights are 12 h^2 in matrices and 4 h in layer norms.
struct Formula {
  int64_t h, tokens, e = 4;
  int64_t matrices() const { return 12 * h * h; }
  int64_t norms() const { return 4 * h; }
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

// Gathered once for forward and backward and scattered once: as much as data
// parallelism, for a share of the memory.
TEST(WireBytes, Zero3IsTwiceTheWeights) {
  for (int64_t d : {2, 4, 8}) {
    for (const Formula f : {Formula{8, 64}, Formula{64, 128}}) {
      EXPECT_EQ(BytesPerLayer(absl::StrCat("data:", d), kZero3, f),
                2 * (d - 1) * (f.matrices() + f.norms()) * f.e / d)
          << d;
    }
  }
}

TEST(WireBytes, OnTwoAxesEachSeesAShardOfTheOther) {
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

// The layer of a model of 175 billion weights on 8 devices: twice what the
// literature gives for elements of two bytes.
TEST(WireBytes, ALargeModelCostsNothingToPlan) {
  const Formula f{12288, 2048};
  EXPECT_EQ(BytesPerLayer("model:8", kMegatron, f), 2 * 352321536);
  EXPECT_EQ(BytesPerLayer("data:8", "batch:data", f),
            12683575296 + 2 * 7 * f.norms() * f.e / 8);
}

// Three numbers per token: maximum, sum and the logit of the target.
TEST(WireBytes, ALossOverACutVocabularyIsThreeNumbersPerToken) {
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

TEST(WireBytes, AnEmbeddingOverACutVocabularyIsOneAllReduce) {
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
