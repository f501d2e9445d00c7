// SPDX-License-Identifier: Apache-2.0
//
// Memory by purpose.
#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "nn/optimizers/adafactor.h"
#include "nn/optimizers/sgd.h"
#include "ops/reduce.h"
#include "planning/explain/explain_parts.h"
#include "tests/lowering/gpt_layers.h"
#include "tests/planning/explain/explain_test.h"

namespace mtf::testing {
namespace {

struct Precision {
  std::string name;
  DType activations = kFloat32, parameters = kFloat32;
  std::optional<DType> master = std::nullopt, gradients = std::nullopt;
};

struct Case {
  Precision precision;
  std::string layout, mesh, optimizer;
  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.precision.name << ", " << c.layout << ", " << c.mesh << ", "
         << c.optimizer;
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Precision& precision :
       {Precision{"f32"}, Precision{"mixed", kBFloat16, kFloat32},
        Precision{"bf16", kBFloat16, kBFloat16},
        Precision{"masters", kBFloat16, kBFloat16, kFloat32, kFloat32},
        Precision{"masters, bf16 gradients", kBFloat16, kBFloat16, kFloat32,
                  kBFloat16}}) {
    for (const char* layout :
         {gpt_layouts::kData, gpt_layouts::kZero1, gpt_layouts::kZero3,
          gpt_layouts::kZero3KeepGathered, gpt_layouts::kTwoAxesOfWeights,
          gpt_layouts::kSequence}) {
      for (const char* mesh : {"data:2,model:2", "data:3"}) {
        for (const char* optimizer : {"adamw", "clipped", "sgd", "adafactor"}) {
          cases.push_back({precision, layout, mesh, optimizer});
        }
      }
    }
  }
  return cases;
}

struct Built {
  Graph graph;
  Targets targets;
  explicit Built(const Case& c) {
    GptSizes sizes;
    sizes.batch = 8;
    sizes.length = 4;
    sizes.d_model = 6;
    sizes.heads = 2;
    sizes.vocab = 10;
    sizes.biases = true;
    sizes.dtype = c.precision.activations;
    sizes.parameters = c.precision.parameters;
    sizes.master = c.precision.master;
    sizes.gradients = c.precision.gradients;
    const Tensor loss = GptBuilder(graph, sizes).Build().loss;
    Tensor step;
    if (c.optimizer == "sgd") {
      step = nn::Sgd({.momentum = 0.9}).Minimize(loss);
    } else if (c.optimizer == "adafactor") {
      step = nn::Adafactor().Minimize(loss);
    } else {
      nn::AdamWOptions options;
      if (c.optimizer == "clipped") options.max_gradient_norm = 1;
      step = nn::AdamW(options).Minimize(loss);
    }
    targets = {.fetches = {loss}, .updates = {step}};
  }
};

class Purposes : public ::testing::TestWithParam<Case> {};

// In a GPT the dimensions of a value determine its purpose: activations have
// the dimension "batch", and values with the dimensions of a parameter are no
// activations, however they were cast, gathered or summed.
TEST_P(Purposes, MatchTheDimensionsOfValuesInAGpt) {
  const Built built(GetParam());
  const auto program =
      LowerText(built.graph, GetParam().mesh, GetParam().layout, built.targets);
  ASSERT_OK(program);
  const std::vector<MemoryKind> kinds = internal::FindPurposes(*program);
  ASSERT_EQ(kinds.size(), program->values.size());
  int activations = 0, gradients = 0, copies = 0;
  for (const Instruction& instruction : program->instructions) {
    for (int result : instruction.results) {
      const ProgramValue& value = program->values[result];
      const bool in_batch = value.shape.Find("batch") >= 0;
      const bool of_parameter =
          value.shape.rank() > 0 &&
          std::any_of(program->variables.begin(), program->variables.end(),
                      [&](const ProgramVariable& variable) {
                        return variable.shape.SameDimensions(value.shape);
                      });
      if (in_batch) {
        ++activations;
        EXPECT_EQ(kinds[result], MemoryKind::kActivation) << value.name;
      } else if (of_parameter) {
        EXPECT_NE(kinds[result], MemoryKind::kActivation) << value.name;
        gradients += kinds[result] == MemoryKind::kGradient;
        copies += kinds[result] == MemoryKind::kCopy;
      }
    }
  }
  EXPECT_GT(activations, 0);
  EXPECT_GE(gradients, static_cast<int>(built.graph.variables().size()) / 4);
  EXPECT_GT(copies, 0);

  // The parts add up to the total, and the tensors to the peak.
  const ExplainedMemory memory = internal::ExplainMemory(*program);
  EXPECT_EQ(memory.total, internal::MemoryBytes(*program));
  EXPECT_EQ(memory.parts.total(), memory.total);
  int64_t alive = 0;
  for (const ExplainedTensor& tensor : memory.alive) alive += tensor.bytes;
  EXPECT_EQ(alive, memory.parts.gradients + memory.parts.copies +
                       memory.parts.activations);
}

INSTANTIATE_TEST_SUITE_P(Gpt, Purposes, ::testing::ValuesIn(Cases()));

// An f32 layer that is used as bf16 and sharded over two ranks, with so few
// examples that the copy of the weight and its gradients are the largest
// tensors.
TEST(ExplainMemory, GatheredCastOfAParameterIsACopy) {
  const Dimension batch{"batch", 2}, io{"io", 64}, hidden{"hidden", 32};
  Graph graph;
  const Tensor x = Input(graph, "x", kBFloat16, {batch, io});
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {io, hidden}));
  const Tensor y = Einsum({x, Cast(w, kBFloat16)}, {batch, hidden});
  const Tensor loss = ReduceSum(Cast(y * y, kFloat32), {});
  const Tensor step = nn::Sgd({.learning_rate = 0.1}).Minimize(loss);
  for (const char* layout :
       {"batch:data [optimizer] hidden:data",
        "batch:data [parameters] hidden:data [optimizer] hidden:data"}) {
    const auto program = LowerText(graph, "data:2", layout,
                                   {.fetches = {loss}, .updates = {step}});
    ASSERT_OK(program);
    const std::vector<MemoryKind> kinds = internal::FindPurposes(*program);
    const auto bytes_of = [&](MemoryKind kind, DType dtype, int64_t bytes) {
      int count = 0;
      for (size_t v = 0; v < kinds.size(); ++v) {
        count += kinds[v] == kind && program->values[v].dtype == dtype &&
                 internal::LocalBytes(*program, static_cast<int>(v)) == bytes;
      }
      return count;
    };
    // The gathered weight in bf16, and its gradient before and after the
    // reduce_scatter.
    EXPECT_GE(bytes_of(MemoryKind::kCopy, kBFloat16, 64 * 32 * 2), 1) << layout;
    EXPECT_EQ(bytes_of(MemoryKind::kGradient, kBFloat16, 64 * 32 * 2), 1);
    EXPECT_EQ(bytes_of(MemoryKind::kGradient, kBFloat16, 64 * 16 * 2), 1);
    const ExplainedMemory memory = internal::ExplainMemory(*program);
    // Activations have a few numbers for each example.
    EXPECT_LT(memory.parts.activations, 64 * 32);
    EXPECT_EQ(memory.parts.total(), memory.total);
  }
}

TEST(OffloadedMemory, IsNotedOnAMachineWithOneMemory) {
  const TwoLayers model;
  const auto notices = [&](const char* machine) {
    const auto explanation = Explain(
        model.graph, *Mesh::Parse("data:2"),
        *LayoutRules::Parse("batch:data [offload] parameters", "--layout"),
        model.targets(), *Machine::Load(machine));
    EXPECT_OK(explanation);
    return absl::StrJoin(explanation->notices, "\n");
  };
  EXPECT_THAT(notices("cpu_host"), ::testing::HasSubstr("has one memory"));
  EXPECT_EQ(notices("h100_nvlink_ib"), "");
}

// A change of a rule of [optimizer] changes the host memory of the state.
TEST(OffloadedMemory, IsAColumnOfChanges) {
  Graph graph;
  const Transformer model = BuildTransformer(graph, {.layers = 2});
  const Targets targets = {.fetches = {model.loss}, .updates = {model.step}};
  const auto explained = [&](absl::string_view layout) {
    const auto explanation =
        ExplainTextLayout(graph, "data:4", layout, targets);
    EXPECT_OK(explanation);
    return explanation.ok() ? *explanation : Explanation();
  };
  const std::string rules = "batch:data [optimizer] d_model:data";
  const Explanation plain = explained(rules),
                    offloaded = explained(rules + " [offload] optimizer");
  const int64_t state = plain.memory.parts.optimizer_state;
  EXPECT_EQ(offloaded.memory.parts.host, state);
  int changed = 0;
  for (const RuleChange& change : offloaded.changes) {
    if (change.edit != "drop [optimizer] d_model:data") continue;
    ++changed;
    EXPECT_EQ(change.memory.optimizer_state, 0);
    EXPECT_GT(change.memory.host, 3 * state);
  }
  EXPECT_EQ(changed, 1);
  for (const auto& text : {&ExplainText, &ExplainFullText}) {
    EXPECT_THAT(text(offloaded, 120),
                ::testing::ContainsRegex("change +step +sent +memory +host "
                                         "memory\n"));
    EXPECT_THAT(text(plain, 120),
                ::testing::Not(::testing::HasSubstr("host memory")));
  }
  EXPECT_THAT(
      ExplainFullText(offloaded, 160),
      ::testing::ContainsRegex("rule +use +saved .* host memory +from"));
}

}  // namespace
}  // namespace mtf::testing
