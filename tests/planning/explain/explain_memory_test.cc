// SPDX-License-Identifier: Apache-2.0
//
// What the memory of a step is for.
#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "lowering/passes/plan_for_machine.h"
#include "nn/optimizers/adafactor.h"
#include "nn/optimizers/sgd.h"
#include "ops/reduce.h"
#include "planning/explain/explain_parts.h"
#include "tests/lowering/fusion/attention_parts.h"
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
        Precision{"masters, short gradients", kBFloat16, kBFloat16, kFloat32,
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

// The program of a GPT tells by names what a value is for: an activation has a
// batch, and what has the dimensions of a parameter is none, whatever it was
// cast to, gathered from or summed with on its way.
TEST_P(Purposes, OfAGptAreToldByItsDimensions) {
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

  // The parts add up to the peak, down to what lies between tensors.
  const ExplainedMemory memory = internal::ExplainMemory(*program);
  EXPECT_EQ(memory.total, internal::MemoryBytes(*program));
  EXPECT_EQ(memory.parts.total(), memory.total);
  int64_t alive = 0;
  for (const ExplainedTensor& tensor : memory.alive) alive += tensor.bytes;
  EXPECT_EQ(alive, memory.parts.gradients + memory.parts.copies +
                       memory.parts.activations);
}

INSTANTIATE_TEST_SUITE_P(Gpt, Purposes, ::testing::ValuesIn(Cases()));

// One layer of f32 that is used as bf16, cut over two ranks, and so few
// examples that its copy, its gradient and the cast of it are the largest
// tensors.
TEST(ExplainMemory, ACastParameterThatIsGatheredIsACopyOfIt) {
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
    // The whole of it in bf16, its gradient before and behind the
    // reduce_scatter.
    EXPECT_GE(bytes_of(MemoryKind::kCopy, kBFloat16, 64 * 32 * 2), 1) << layout;
    EXPECT_EQ(bytes_of(MemoryKind::kGradient, kBFloat16, 64 * 32 * 2), 1);
    EXPECT_EQ(bytes_of(MemoryKind::kGradient, kBFloat16, 64 * 16 * 2), 1);
    const ExplainedMemory memory = internal::ExplainMemory(*program);
    // x, y and so on: a few numbers for each example.
    EXPECT_LT(memory.parts.activations, 64 * 32);
    EXPECT_EQ(memory.parts.total(), memory.total);
  }
}

// What is kept where the weights would be says what it is: for the gradient the
// sums of rows, and what is added to the scores in any case. Sums alone are too
// few to be there when memory is fullest (PlanForMachine has them).
TEST(ExplainMemory, WhatAttentionKeepsIsNamed) {
  for (const bool gradient : {false, true}) {
    for (const char* added : {"", "bhlm"}) {
      const std::string wanted = !gradient
                                     ? *added != '\0' ? "bias of attention" : ""
                                 : *added != '\0' ? "sums and bias of attention"
                                                  : "";
      SCOPED_TRACE(wanted);
      Graph graph;
      auto program = LowerText(
          graph, "", "",
          BuildAttention(
              graph, {.causal = false, .gradient = gradient, .added = added}));
      ASSERT_OK(program);
      const MachinePlan plan = PlanForMachine(TestMachine().fusion(), *program);
      ASSERT_EQ(plan.attention.size(), 1u);
      const ExplainedMemory memory = internal::ExplainMemory(*program, plan);
      std::vector<std::string> kept;
      for (const ExplainedTensor& tensor : memory.alive) {
        if (absl::StrContains(tensor.type, "attention")) {
          kept.push_back(tensor.type);
        }
      }
      EXPECT_EQ(absl::StrJoin(kept, "; "), wanted);
    }
  }
}

}  // namespace
}  // namespace mtf::testing
