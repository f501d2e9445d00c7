// SPDX-License-Identifier: Apache-2.0
// Memory that a plan takes per layer and rank, compared with the closed
// formulas of the literature: weights, gradients and optimizer state.
#include <algorithm>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "layouts/shard.h"
#include "lowering/program/readers.h"
#include "nn/optimizers/adafactor.h"
#include "nn/optimizers/sgd.h"
#include "tests/lowering/gpt_plan.h"

namespace mtf::testing {
namespace {

// Bytes per rank.
struct Memory {
  int64_t parameters = 0, optimizer = 0;  // stored
  int64_t gradients = 0;                  // as the optimizer reads them
  // The peak of the bytes of copies of parameters, cast or gathered for their
  // use.
  int64_t copies = 0;

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

// By value: the last instruction that reads it, or -1.
std::vector<int> LastReaders(const Program& program) {
  std::vector<int> last(program.values.size(), -1);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (int operand : program.instructions[i].operands) {
      last[operand] = static_cast<int>(i);
    }
  }
  return last;
}

// The gradients of parameters, as the optimizer reads them: the operands of an
// assignment to a parameter that are not variables.
std::vector<int> GradientsIn(const Graph& graph, const Program& program) {
  const std::vector<int> producers = FindProducers(program);
  std::map<std::string, const VariableInfo*> infos;
  for (const VariableInfo& info : graph.variables()) infos[info.name] = &info;
  std::vector<int> gradients;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode != Opcode::kWriteVariable) continue;
    const VariableInfo& info =
        *infos.at(instruction.Get<NameAttributes>().name);
    if (info.kind != VariableKind::kParameter) continue;
    for (int source :
         SourcesOf(program, producers, instruction.operands[0],
                   {Opcode::kMap, Opcode::kAllGather, Opcode::kAllSlice})) {
      if (std::count(gradients.begin(), gradients.end(), source) == 0 &&
          program.values[source].shape.SameDimensions(info.shape) &&
          program.instructions[producers[source]].opcode !=
              Opcode::kReadVariable) {
        gradients.push_back(source);
      }
    }
  }
  return gradients;
}

// Bytes of the gradients that each rank computes, before they are reduced.
int64_t SummandBytes(const Graph& graph, const Program& program) {
  const std::vector<int> producers = FindProducers(program);
  int64_t bytes = 0;
  for (int gradient : GradientsIn(graph, program)) {
    const Instruction& maker = program.instructions[producers[gradient]];
    if (maker.opcode == Opcode::kReduceScatter ||
        maker.opcode == Opcode::kAllReduce) {
      const auto place =
          std::find(maker.results.begin(), maker.results.end(), gradient);
      gradient = maker.operands[place - maker.results.begin()];
    }
    bytes += program.values[gradient].local_bytes();
  }
  return bytes;
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
  for (int gradient : GradientsIn(graph, program)) {
    memory.gradients += program.values[gradient].local_bytes();
  }
  std::vector<bool> seen(program.values.size(), false);
  std::vector<int64_t> made(program.instructions.size(), 0),
      gone(program.instructions.size(), 0);
  const std::vector<int> last = LastReaders(program);
  for (const Instruction& instruction : program.instructions) {
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
        made[producers[operand]] += program.values[operand].local_bytes();
        gone[last[operand]] += program.values[operand].local_bytes();
      }
    }
  }
  int64_t copies = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    memory.copies = std::max(memory.copies, copies += made[i]);
    copies -= gone[i];
  }
  return memory;
}

Memory LayerMemory(absl::string_view mesh, absl::string_view layout,
                   GptSizes sizes, const Minimizer& minimize = AdamWStep) {
  // One layer of parameters is gathered ahead if there is another layer.
  ++sizes.layers;
  return PerLayer<Memory>(mesh, layout, sizes, minimize, MemoryOf);
}

constexpr int64_t kH = 12288, kP = 12 * kH * kH;

TEST(GptMemory, OneDevice) {
  // 16 bytes per parameter: itself, its gradient, two moments.
  EXPECT_EQ(LayerMemory("data:1", "", Sizes(kFloat32, kFloat32)),
            (Memory{4 * kP, 8 * kP, 4 * kP, 0}));
  // Also 16 bytes (2 + 2 + 4 + 4 + 4 in the ZeRO paper and llm.c): an f32
  // parameter is its own master copy; the bf16 copy that the model computes
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
    // Stages 1 and 2: replicated parameters, the rest in shards. A gradient is
    // reduce_scattered as soon as the optimizer can read it, so 4 + 12/d where
    // stage 1 has 8 + 8/d.
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero1, f32),
              (Memory{4 * kP, 8 * kP / d, 4 * kP / d, 0}));
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero1, mixed),
              (Memory{4 * kP, 8 * kP / d, 2 * kP / d, 2 * kP}));
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero1, bf16),
              (Memory{2 * kP, 8 * kP / d, 2 * kP / d, 0}));
    // Stage 3: 16/d stored. The bytes gathered for use do not grow with the
    // layers unless gathered copies are kept.
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero3, f32),
              (Memory{4 * kP / d, 8 * kP / d, 4 * kP / d, 0}));
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero3, mixed),
              (Memory{4 * kP / d, 8 * kP / d, 2 * kP / d, 0}));
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero3KeepGathered, f32),
              (Memory{4 * kP / d, 8 * kP / d, 4 * kP / d, 4 * kP}));
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero3KeepGathered, mixed),
              (Memory{4 * kP / d, 8 * kP / d, 2 * kP / d, 2 * kP}));
  }
}

TEST(GptMemory, ShardedLayers) {
  const GptSizes f32 = Sizes(kFloat32, kFloat32, 4);
  for (const char* layout : {gpt_layouts::kMegatron, gpt_layouts::kSequence}) {
    EXPECT_EQ(LayerMemory("model:8", layout, f32),
              (Memory{4 * kP / 8, 8 * kP / 8, 4 * kP / 8, 0}));
  }
  EXPECT_EQ(LayerMemory("data:4,model:8", gpt_layouts::kTwoAxes, f32),
            (Memory{4 * kP / 8, 8 * kP / 8, 4 * kP / 8, 0}));
  EXPECT_EQ(LayerMemory("data:4,model:8", gpt_layouts::kTwoAxesOfWeights, f32),
            (Memory{4 * kP / 32, 8 * kP / 32, 4 * kP / 32, 0}));
  EXPECT_EQ(LayerMemory("model:8", gpt_layouts::kAllToAll, f32),
            (Memory{4 * kP, 8 * kP, 4 * kP, 0}));
  GptSizes mixture = Sizes(kFloat32, kFloat32, 8);
  mixture.experts = 8;
  // 4 h^2 of attention, 8 h^2 per expert, the router.
  const int64_t weights = 12 * kH * kH + 8 * kH;
  EXPECT_EQ(LayerMemory("data:8", gpt_layouts::kExperts, mixture),
            (Memory{4 * weights, 8 * weights, 4 * weights, 0}));
}

// The mixed precision of Megatron, 18 bytes per parameter: 2 of the weight, 4
// of its gradient, 4 of the master copy and 8 of moments; 16 with bf16
// gradients.
TEST(GptMemory, MixedPrecision) {
  EXPECT_EQ(LayerMemory("data:1", "", MegatronSizes()),
            (Memory{2 * kP, 12 * kP, 4 * kP, 0}));
  EXPECT_EQ(LayerMemory("data:1", "", MegatronSizes(1, kBFloat16)),
            (Memory{2 * kP, 12 * kP, 2 * kP, 0}));
  for (int64_t d : {2, 8, 64}) {
    const std::string mesh = absl::StrCat("data:", d);
    const GptSizes sizes = MegatronSizes(d);
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kData, sizes),
              (Memory{2 * kP, 12 * kP, 4 * kP, 0}));
    // The distributed optimizer, 6 + 12/d: replicated weights, and gradients
    // that each rank computes in full. Megatron keeps all of those until the
    // last is computed; our plan keeps shards of them, 4/d, once they are
    // reduced.
    const Memory distributed = LayerMemory(mesh, gpt_layouts::kZero1, sizes);
    EXPECT_EQ(distributed, (Memory{2 * kP, 12 * kP / d, 4 * kP / d, 0}));
    EXPECT_EQ(
        distributed.state() + PerLayer<int64_t>(mesh, gpt_layouts::kZero1,
                                                sizes, AdamWStep, SummandBytes),
        6 * kP + 12 * kP / d);
    // Stage 3, 18/d.
    const Memory shards = LayerMemory(mesh, gpt_layouts::kZero3, sizes);
    EXPECT_EQ(shards, (Memory{2 * kP / d, 12 * kP / d, 4 * kP / d, 0}));
    EXPECT_EQ(shards.total(), 18 * kP / d);
    // Parameters are gathered in the dtype of their use.
    EXPECT_EQ(LayerMemory(mesh, gpt_layouts::kZero3KeepGathered, sizes),
              (Memory{2 * kP / d, 12 * kP / d, 4 * kP / d, 2 * kP}));
  }
}

class PublishedModels : public ::testing::TestWithParam<Published> {};

// The published table, from the plan of a step of AdamW in the published
// precision.
TEST_P(PublishedModels, WeightsAndOptimizerState) {
  const Published& p = GetParam();
  const Memory layer = LayerMemory(absl::StrCat("model:", p.tensor),
                                   gpt_layouts::kMegatron, SizesOf(p));
  const int64_t layers = p.layers / p.pipeline;
  const int64_t parameters = layer.parameters / 2;
  EXPECT_EQ(layer,
            (Memory{2 * parameters, 12 * parameters, 4 * parameters, 0}));
  EXPECT_EQ(layer.total() * layers / kGiB, p.weights);
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedModels,
                         ::testing::ValuesIn(kPublished),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mtf::testing
