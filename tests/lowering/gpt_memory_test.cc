// SPDX-License-Identifier: Apache-2.0
//
// Memory that a plan takes per layer and rank, beside the closed formulas of
// the literature: weights, gradients and optimizer state, and what the forward
// pass leaves for the backward pass.
#include <algorithm>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "layouts/shard.h"
#include "lowering/plan_buffers.h"
#include "lowering/readers.h"
#include "nn/adafactor.h"
#include "nn/sgd.h"
#include "tests/lowering/gpt_layers.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

// Bytes of one rank.
struct Memory {
  int64_t parameters = 0, optimizer = 0;  // at rest
  int64_t gradients = 0;                  // as the optimizer reads them
  int64_t copies = 0;  // of parameters, cast or gathered for their use

  int64_t state() const { return parameters + optimizer; }
  int64_t total() const { return state() + gradients + copies; }
  Memory operator-(const Memory& other) const {
    return {parameters - other.parameters, optimizer - other.optimizer,
            gradients - other.gradients, copies - other.copies};
  }
  friend bool operator==(const Memory&, const Memory&) = default;
  friend void PrintTo(const Memory& memory, std::ostream* out) {
    *out << memory.parameters << " parameters, " << memory.optimizer
         << " optimizer, " << memory.gradients << " gradients, "
         << memory.copies << " copies";
  }
};

// The values behind `value` that no map, and nothing of `passed`, made.
std::vector<int> SourcesOf(const Program& program,
                           const std::vector<int>& producers, int value,
                           const std::vector<Opcode>& passed) {
  const int place = producers[value];
  if (place < 0) return {value};
  const Instruction& instruction = program.instructions[place];
  if (std::count(passed.begin(), passed.end(), instruction.opcode) == 0) {
    return {value};
  }
  std::vector<int> sources;
  for (int operand : instruction.operands) {
    for (int source : SourcesOf(program, producers, operand, passed)) {
      sources.push_back(source);
    }
  }
  return sources;
}

Memory MemoryOf(const Graph& graph, const Program& program) {
  Memory memory;
  const std::vector<int> producers = FindProducers(program);
  std::map<std::string, const VariableInfo*> infos;
  for (const VariableInfo& info : graph.variables()) infos[info.name] = &info;
  for (const ProgramVariable& variable : program.variables) {
    const int64_t bytes =
        LocalElements(program.grains, variable.shape, variable.layout) *
        DTypeSize(variable.dtype);
    (infos.at(variable.name)->kind == VariableKind::kParameter
         ? memory.parameters
         : memory.optimizer) += bytes;
  }
  // A gradient is what an assignment to a parameter reads besides variables.
  std::vector<bool> seen(program.values.size(), false);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::kWriteVariable) {
      const VariableInfo& info = *infos.at(instruction.symbol);
      if (info.kind != VariableKind::kParameter) continue;
      for (int source :
           SourcesOf(program, producers, instruction.operands[0],
                     {Opcode::kMap, Opcode::kAllGather, Opcode::kAllSlice})) {
        const ProgramValue& value = program.values[source];
        if (seen[source] || !value.shape.SameDimensions(info.shape) ||
            program.instructions[producers[source]].opcode ==
                Opcode::kReadVariable) {
          continue;
        }
        seen[source] = true;
        memory.gradients += value.local_bytes();
      }
    }
    if (instruction.opcode == Opcode::kEinsum) {
      for (int operand : instruction.operands) {
        const std::vector<int> sources =
            SourcesOf(program, producers, operand,
                      {Opcode::kMap, Opcode::kAllGather, Opcode::kReshape});
        if (seen[operand] || sources.size() != 1 || sources[0] == operand ||
            producers[sources[0]] < 0 ||
            program.instructions[producers[sources[0]]].opcode !=
                Opcode::kReadVariable) {
          continue;
        }
        seen[operand] = true;
        memory.copies += program.values[operand].local_bytes();
      }
    }
  }
  return memory;
}

using Minimizer = std::function<Tensor(Tensor loss)>;

Tensor AdamWStep(Tensor loss) { return nn::AdamW().Minimize(loss); }

// Calls `read` with the programs of sizes.layers and of one more.
template <typename Result>
Result PerLayer(absl::string_view mesh, absl::string_view layout,
                GptSizes sizes, const Minimizer& minimize,
                Result (*read)(const Graph&, const Program&)) {
  Result results[2];
  for (Result& result : results) {
    Graph graph;
    const Gpt gpt = GptBuilder(graph, sizes).Build();
    const Tensor step = minimize(gpt.loss);
    const auto program = LowerText(graph, mesh, layout,
                                   {.fetches = {gpt.loss}, .updates = {step}});
    EXPECT_OK(program);
    if (program.ok()) result = read(graph, *program);
    ++sizes.layers;
  }
  return results[1] - results[0];
}

Memory LayerMemory(absl::string_view mesh, absl::string_view layout,
                   const GptSizes& sizes,
                   const Minimizer& minimize = AdamWStep) {
  return PerLayer<Memory>(mesh, layout, sizes, minimize, MemoryOf);
}

constexpr int64_t kH = 12288, kP = 12 * kH * kH;

GptSizes Sizes(DType dtype, DType parameters, int64_t batch = 1) {
  GptSizes sizes;
  sizes.batch = batch;
  sizes.dtype = dtype;
  sizes.parameters = parameters;
  return sizes;
}

TEST(GptMemory, OneDevice) {
  // 16 bytes for each parameter: itself, its gradient, two moments.
  EXPECT_EQ(LayerMemory("data:1", "", Sizes(kFloat32, kFloat32)),
            (Memory{4 * kP, 8 * kP, 4 * kP, 0}));
  // 16 bytes too (2 + 2 + 4 + 4 + 4 of the ZeRO paper and llm.c): a parameter
  // of f32 is its own master copy, the copy of bf16 that the model computes
  // with lives from its first use to its last.
  EXPECT_EQ(LayerMemory("data:1", "", Sizes(kBFloat16, kFloat32)),
            (Memory{4 * kP, 8 * kP, 2 * kP, 2 * kP}));
  // Without a master copy, 12.
  EXPECT_EQ(LayerMemory("data:1", "", Sizes(kBFloat16, kBFloat16)),
            (Memory{2 * kP, 8 * kP, 2 * kP, 0}));
}

TEST(GptMemory, OtherOptimizers) {
  const GptSizes sizes = Sizes(kFloat32, kFloat32);
  EXPECT_EQ(LayerMemory("data:1", "", sizes,
                        [](Tensor loss) { return nn::Sgd().Minimize(loss); }),
            (Memory{4 * kP, 0, 4 * kP, 0}));
  EXPECT_EQ(LayerMemory("data:1", "", sizes,
                        [](Tensor loss) {
                          return nn::Sgd({.momentum = 0.9}).Minimize(loss);
                        }),
            (Memory{4 * kP, 4 * kP, 4 * kP, 0}));
  // Means over the two largest dimensions of each kernel: d_model and d_kv
  // (with heads) of the attention, and those of the feed-forward layer.
  const int64_t heads = sizes.heads, d_kv = sizes.d_kv();
  EXPECT_EQ(heads, 96);
  EXPECT_EQ(
      LayerMemory("data:1", "", sizes,
                  [](Tensor loss) { return nn::Adafactor().Minimize(loss); }),
      (Memory{4 * kP, 4 * (4 * (heads * d_kv + kH * heads) + 2 * (4 * kH + kH)),
              4 * kP, 0}));
}

TEST(GptMemory, ZeroStages) {
  for (int64_t d : {2, 8, 64}) {
    const std::string mesh = absl::StrCat("data:", d);
    const GptSizes f32 = Sizes(kFloat32, kFloat32, d),
                   mixed = Sizes(kBFloat16, kFloat32, d),
                   bf16 = Sizes(kBFloat16, kBFloat16, d);
    // All of it on every rank.
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kData, f32),
              (Memory{4 * kP, 8 * kP, 4 * kP, 0}));
    // Stages 1 and 2: whole parameters, the rest in shards. A gradient is
    // reduce_scattered as soon as the optimizer wants it, so 4 + 12/d where
    // stage 1 has 8 + 8/d.
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero1, f32),
              (Memory{4 * kP, 8 * kP / d, 4 * kP / d, 0}));
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero1, mixed),
              (Memory{4 * kP, 8 * kP / d, 2 * kP / d, 2 * kP}));
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero1, bf16),
              (Memory{2 * kP, 8 * kP / d, 2 * kP / d, 0}));
    // Stage 3: 16/d at rest, and what is gathered for use.
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero3, f32),
              (Memory{4 * kP / d, 8 * kP / d, 4 * kP / d, 4 * kP}));
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero3, mixed),
              (Memory{4 * kP / d, 8 * kP / d, 2 * kP / d, 2 * kP}));
  }
}

TEST(GptMemory, LayersThatAreCut) {
  const GptSizes f32 = Sizes(kFloat32, kFloat32, 4);
  for (const char* layout : {gpt_layouts::kMegatron, gpt_layouts::kSequence}) {
    EXPECT_EQ(LayerMemory("model:8", layout, f32),
              (Memory{4 * kP / 8, 8 * kP / 8, 4 * kP / 8, 0}));
  }
  EXPECT_EQ(LayerMemory("data:4,model:8", gpt_layouts::kTwoAxes, f32),
            (Memory{4 * kP / 8, 8 * kP / 8, 4 * kP / 8, 0}));
  EXPECT_EQ(LayerMemory("data:4,model:8", gpt_layouts::kTwoAxesOfWeights, f32),
            (Memory{4 * kP / 32, 8 * kP / 32, 4 * kP / 32, 4 * kP / 8}));
  EXPECT_EQ(LayerMemory("model:8", gpt_layouts::kAllToAll, f32),
            (Memory{4 * kP, 8 * kP, 4 * kP, 0}));
  GptSizes mixture = Sizes(kFloat32, kFloat32, 8);
  mixture.experts = 8;
  // 4 h^2 of attention, 8 h^2 of each expert, the router.
  const int64_t weights = 12 * kH * kH + 8 * kH;
  EXPECT_EQ(LayerMemory("data:8", gpt_layouts::kExperts, mixture),
            (Memory{4 * weights, 8 * weights, 4 * weights, 0}));
}

// Models of Korthikanti et al., 2022, and GiB per rank: of weights and
// optimizer state at 18 bytes for each parameter, and of activations without
// and with sequence parallelism. Length 2048.
struct Published {
  const char* name;
  int64_t h, layers, heads, tensor, pipeline, interleaved, batch;
  double weights, tensor_parallel, sequence_parallel;
  friend std::ostream& operator<<(std::ostream& out, const Published& p) {
    return out << p.name;
  }
};
constexpr Published kPublished[] = {
    {"22B", 6144, 48, 64, 8, 1, 1, 4, 45.5625, 59.25, 39.5625},
    {"175B", 12288, 96, 96, 8, 8, 3, 1, 45.5625, 66.84375, 41.4140625},
    {"530B", 20480, 105, 128, 8, 35, 3, 1, 31.640625, 114.0234375, 66.513672},
    {"1T", 25600, 128, 160, 8, 64, 1, 1, 32.958984375, 131.25, 76.5625},
};
constexpr double kGiB = 1 << 30;

class PublishedModels : public ::testing::TestWithParam<Published> {};

GptSizes SizesOf(const Published& p) {
  GptSizes sizes = Sizes(kBFloat16, kFloat32, p.batch);
  sizes.d_model = p.h;
  sizes.heads = p.heads;
  return sizes;
}

// The published 18 bytes are 2 of the weight, 4 of its gradient, 4 of a master
// copy and 8 of moments. Our plan has 16: the f32 parameter is the master copy,
// and a gradient of bf16 stays one. So the table is that of our plan's number
// of parameters per rank, and our plan's own bytes are 16/18 of it.
TEST_P(PublishedModels, WeightsAndOptimizerState) {
  const Published& p = GetParam();
  const Memory layer = LayerMemory(absl::StrCat("model:", p.tensor),
                                   gpt_layouts::kMegatron, SizesOf(p));
  const int64_t layers = p.layers / p.pipeline;
  const int64_t parameters = layer.parameters / 4;
  EXPECT_EQ(18 * parameters * layers / kGiB, p.weights);
  EXPECT_EQ(layer, (Memory{4 * parameters, 8 * parameters, 2 * parameters,
                           2 * parameters}));
  EXPECT_EQ(layer.total() * layers / kGiB, p.weights * 16 / 18);
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedModels,
                         ::testing::ValuesIn(kPublished),
                         [](const auto& info) { return info.param.name; });

// Values that the forward pass of a layer leaves for the backward pass.
struct Saved {
  std::map<std::string, int64_t> bytes;  // by name

  Saved operator-(const Saved& other) const {
    Saved rest;
    for (const auto& [name, count] : bytes) {
      if (!other.bytes.contains(name)) rest.bytes[name] = count;
    }
    return rest;
  }
};

Saved SavedOf(const Graph&, const Program& program) {
  const auto is_backward = [&](const Instruction& instruction) {
    return instruction.origin >= 0 &&
           absl::StrContains(program.origins[instruction.origin].operation,
                             "_grad");
  };
  std::vector<int> owner(program.values.size());
  std::vector<bool> forward(program.values.size(), false);
  bool backward = false;
  Saved saved;
  const std::vector<int> producers = FindProducers(program);
  for (const Instruction& instruction : program.instructions) {
    backward = backward || is_backward(instruction);
    for (int result : instruction.results) {
      owner[result] =
          instruction.opcode == Opcode::kReshape && IsView(program, instruction)
              ? owner[instruction.operands[0]]
              : result;
      forward[result] = !backward;
    }
    if (!backward) continue;
    for (int operand : instruction.operands) {
      const int value = owner[operand];
      const std::vector<int> sources = SourcesOf(
          program, producers, value, {Opcode::kMap, Opcode::kAllGather});
      const bool parameter =
          sources.size() == 1 && producers[sources[0]] >= 0 &&
          program.instructions[producers[sources[0]]].opcode ==
              Opcode::kReadVariable;
      if (!forward[value] || parameter) continue;
      saved.bytes[program.values[value].name] =
          program.values[value].local_bytes();
    }
  }
  return saved;
}

// How a value is cut: like what is inside of a block, like what is between
// blocks, or as what goes from there into a block.
enum class Place { kInside, kBetween, kEntering };

// A value that the forward pass of a layer leaves, and the bytes that it is
// counted with: for each element of a [length, batch, d_model] tensor, or of a
// [heads, length, length, batch] tensor where it has one, or of what is left of
// one after a reduction.
struct Term {
  const char* value;
  enum { kModel, kWeights, kPositions, kRows } unit;
  int ours, published;
  Place place;
};

// Korthikanti et al. count 34 sbh + 5 a s^2 b: of those, 10 sbh are between
// blocks and on the way into them, and the rest is inside. Where we differ:
//  * a layer norm keeps x - mean in f32 (4 bytes) where they count its input in
//    16 bits, and two f32 numbers for each position;
//  * a softmax keeps exp(x - max) in f32 where they count its 16-bit result,
//  and
//    two f32 numbers for each row.
constexpr Term kTerms[] = {
    {"layer_norm/sub", Term::kModel, 4, 2, Place::kBetween},
    {"layer_norm/add", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_norm/rsqrt", Term::kPositions, 4, 0, Place::kBetween},
    // What all three projections read.
    {"layer_norm/cast_1", Term::kModel, 2, 2, Place::kEntering},
    // Queries times the scale, keys, values.
    {"attention/dot_product/mul", Term::kModel, 2, 2, Place::kInside},
    {"attention/einsum_1", Term::kModel, 2, 2, Place::kInside},
    {"attention/einsum_2", Term::kModel, 2, 2, Place::kInside},
    // Softmax, mask of its dropout, what is left.
    {"attention/dot_product/softmax/exp", Term::kWeights, 4, 2, Place::kInside},
    {"attention/dot_product/softmax/reduce_sum", Term::kRows, 4, 0,
     Place::kInside},
    {"attention/dot_product/softmax/reciprocal", Term::kRows, 4, 0,
     Place::kInside},
    {"attention/dot_product/greater_equal_1", Term::kWeights, 1, 1,
     Place::kInside},
    {"attention/dot_product/select_1", Term::kWeights, 2, 2, Place::kInside},
    // What the output projection reads, and the mask of its dropout.
    {"attention/dot_product/einsum_1", Term::kModel, 2, 2, Place::kInside},
    {"greater_equal", Term::kModel, 1, 1, Place::kBetween},
    // The feed-forward layer: its norm, what it reads, gelu before and after,
    // the mask.
    {"layer_norm_1/sub", Term::kModel, 4, 2, Place::kBetween},
    {"layer_norm_1/add", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_norm_1/rsqrt", Term::kPositions, 4, 0, Place::kBetween},
    {"layer_norm_1/cast_1", Term::kModel, 2, 2, Place::kEntering},
    {"feed_forward/einsum", Term::kModel, 8, 8, Place::kInside},
    {"feed_forward/gelu", Term::kModel, 8, 8, Place::kInside},
    {"greater_equal_1", Term::kModel, 1, 1, Place::kBetween},
};

int64_t ElementsOf(const Term& term, const Published& p) {
  constexpr int64_t kS = 2048;
  switch (term.unit) {
    case Term::kModel:
      return kS * p.batch * p.h;
    case Term::kWeights:
      return p.heads * kS * kS * p.batch;
    case Term::kPositions:
      return kS * p.batch;
    case Term::kRows:
      return p.heads * kS * p.batch;
  }
  return 0;
}

TEST_P(PublishedModels, ActivationsTermByTerm) {
  const Published& p = GetParam();
  GptSizes sizes = SizesOf(p);
  sizes.dropout = 0.1;
  const int64_t t = p.tensor;
  for (bool sequence : {false, true}) {
    // Theirs, of the first of p.pipeline stages.
    double published = 0;
    for (const Term& term : kTerms) {
      const bool cut = sequence || term.place == Place::kInside;
      published += static_cast<double>(term.published * ElementsOf(term, p)) /
                   static_cast<double>(cut ? t : 1);
    }
    const double in_flight =
        p.interleaved == 1
            ? 1.0
            : 1 + static_cast<double>(p.pipeline - 1) /
                      static_cast<double>(p.pipeline * p.interleaved);
    EXPECT_NEAR(published * static_cast<double>(p.layers) * in_flight / kGiB,
                sequence ? p.sequence_parallel : p.tensor_parallel, 1e-6);

    // Ours. What enters a block is gathered there and kept whole, also where
    // it is cut before: they gather it again instead, 2 (t-1)/t T h e more on
    // the wire (see GptBytes.SequenceParallel).
    std::map<std::string, int64_t> ours;
    for (const Term& term : kTerms) {
      std::string value = term.value;
      if (sequence && term.place == Place::kEntering) {
        value = value == "layer_norm/cast_1" ? "reshape_1" : "reshape_2_1";
      }
      const bool cut = term.place == Place::kInside ||
                       (sequence && term.place == Place::kBetween);
      ours[absl::StrCat("layer_1/", value)] =
          term.ours * ElementsOf(term, p) / (cut ? t : 1);
    }
    EXPECT_EQ(PerLayer<Saved>(
                  absl::StrCat("model:", t),
                  sequence ? gpt_layouts::kSequence : gpt_layouts::kMegatron,
                  sizes, AdamWStep, SavedOf)
                  .bytes,
              ours)
        << (sequence ? "sequence parallel" : "tensor parallel");
  }
}

// Of one layer, in units of its sbh: 34 published and 38 of ours, 5 as/h
// published and 7 as/h of ours.
TEST(GptMemory, ActivationsOfALayer) {
  int published[2] = {}, ours[2] = {};
  for (const Term& term : kTerms) {
    if (term.unit > Term::kWeights) continue;
    published[term.unit] += term.published;
    ours[term.unit] += term.ours;
  }
  EXPECT_EQ(published[Term::kModel], 34);
  EXPECT_EQ(published[Term::kWeights], 5);
  EXPECT_EQ(ours[Term::kModel], 38);
  EXPECT_EQ(ours[Term::kWeights], 7);
}

}  // namespace
}  // namespace mtf::testing
