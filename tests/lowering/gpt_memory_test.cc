// SPDX-License-Identifier: Apache-2.0
//
// Memory that a plan takes per layer and rank, beside the closed formulas of
// the literature: weights, gradients and optimizer state.
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "layouts/shard.h"
#include "lowering/readers.h"
#include "nn/adafactor.h"
#include "nn/sgd.h"
#include "tests/lowering/gpt_plan.h"

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

Memory LayerMemory(absl::string_view mesh, absl::string_view layout,
                   const GptSizes& sizes,
                   const Minimizer& minimize = AdamWStep) {
  return PerLayer<Memory>(mesh, layout, sizes, minimize, MemoryOf);
}

constexpr int64_t kH = 12288, kP = 12 * kH * kH;

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

class PublishedModels : public ::testing::TestWithParam<Published> {};

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

}  // namespace
}  // namespace mtf::testing
