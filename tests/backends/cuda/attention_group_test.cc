// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backends/communicator.h"
#include "backends/cuda/find_attention.h"
#include "backends/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/print_program.h"
#include "nn/attention.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "tests/backends/cuda/counting_device.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::BuildTransformer;
using ::mtf::testing::LowerPreset;
using ::mtf::testing::LowerText;
using ::mtf::testing::Transformer;

bool Any(const AttentionProblem&) { return true; }

std::vector<AttentionGroup> Found(
    const Program& program,
    const std::function<bool(const AttentionProblem&)>& accepts = Any) {
  return FindAttention(
      program, std::vector<bool>(program.instructions.size(), false), accepts);
}

const testing::TransformerSizes kSizes = {.batch = 4,
                                          .length = 64,
                                          .d_model = 64,
                                          .heads = 4,
                                          .d_kv = 16,
                                          .d_ff = 256,
                                          .vocab = 128,
                                          .dtype = kBFloat16};

absl::StatusOr<Program> Training(const std::string& preset, int64_t ranks,
                                 testing::TransformerSizes sizes = kSizes) {
  Graph graph;
  const Transformer model = BuildTransformer(graph, sizes);
  return LowerPreset(graph, preset, ranks,
                     {.fetches = {model.loss}, .updates = {model.step}});
}

TEST(FindAttention, EveryLayerOfATransformerForwardAndBackward) {
  const auto program = Training("single", 1);
  ASSERT_OK(program);
  const std::vector<AttentionGroup> groups = Found(*program);
  ASSERT_EQ(groups.size(), 2u) << PrintProgram(*program);
  std::set<int> members;
  for (const AttentionGroup& group : groups) {
    // From the scores to the output, and the five products of the gradient but
    // the scores' own.
    const auto einsums = [&](const std::vector<int>& places) {
      int count = 0;
      for (int place : places) {
        EXPECT_TRUE(members.insert(place).second);
        count += program->instructions[place].opcode == Opcode::kEinsum;
      }
      return count;
    };
    EXPECT_EQ(einsums(group.forward), 2);
    EXPECT_EQ(einsums(group.backward), 4);
    const AttentionProblem& p = group.problem;
    EXPECT_EQ(p.ToString(),
              "bf16 batch 4 heads 4 length 64 memory 64 d 16 q 4096/16/64 k "
              "4096/16/64 v 4096/16/64 o 4096/16/64 scale 1 causal");
    EXPECT_TRUE(group.BackwardProblem().backward);
    // q is what is scaled already, so the number stays in the program.
    EXPECT_THAT(program->values[group.q].name, ::testing::HasSubstr("mul"));
    EXPECT_THAT(program->values[group.d_v].name,
                ::testing::HasSubstr("einsum_1_grad_1"));
  }
}

TEST(FindAttention, HeadsAndBatchMayBeCutButNotLengths) {
  const auto megatron = Training("megatron", 4);
  ASSERT_OK(megatron);
  ASSERT_EQ(Found(*megatron).size(), 2u);
  EXPECT_EQ(Found(*megatron)[0].problem.heads, 1);
  EXPECT_TRUE(Found(*megatron)[0].problem.reproducible);
  const auto data = Training("data", 4);
  ASSERT_OK(data);
  ASSERT_EQ(Found(*data).size(), 2u);
  EXPECT_EQ(Found(*data)[0].problem.batch, 1);
  const auto sequence = Training("sequence", 4);
  ASSERT_OK(sequence);
  EXPECT_EQ(Found(*sequence).size(), 0u);
}

TEST(FindAttention, WhatTheLibraryDoesNotTakeStaysComposed) {
  testing::TransformerSizes wide = kSizes;
  wide.dtype = kFloat32;
  const auto program = Training("single", 1, wide);
  ASSERT_OK(program);
  EXPECT_EQ(Found(*program).size(), 0u);
  const auto narrow = Training("single", 1);
  ASSERT_OK(narrow);
  // Both directions or none: one reads what the other keeps.
  EXPECT_EQ(
      Found(*narrow, [](const AttentionProblem& p) { return !p.backward; })
          .size(),
      0u);
}

TEST(FindAttention, WhatIsOfLengthTimesMemoryTakesNoMemory) {
  testing::TransformerSizes sizes = kSizes;
  sizes.length = 512;
  const auto program = Training("single", 1, sizes);
  ASSERT_OK(program);
  std::vector<FusedGroup> fused;
  for (const AttentionGroup& group : Found(*program)) {
    for (FusedGroup& each : group.FusedGroups()) {
      fused.push_back(std::move(each));
    }
  }
  ASSERT_EQ(fused.size(), 4u);
  const BufferPlan plan = PlanBuffersOf(*program, fused);
  const int64_t scores = sizes.batch * sizes.heads * 512 * 512;
  // Composed, a layer keeps powers in f32 and weights in bf16 alone.
  EXPECT_GT(program->buffers.arena_bytes, 2 * 6 * scores);
  EXPECT_LT(plan.arena_bytes, program->buffers.arena_bytes - 2 * 5 * scores);
  for (size_t v = 0; v < program->values.size(); ++v) {
    if (program->values[v].local_elements() != scores) continue;
    const bool kept =
        program->values[v].name.find("cast_1") != std::string::npos &&
        plan.buffers[v].place == BufferPlan::Place::kArena;
    EXPECT_TRUE(kept || plan.buffers[v].place == BufferPlan::Place::kNone)
        << program->values[v].name;
  }
}

TEST(FindAttention, ShortOnesToo) {
  testing::TransformerSizes sizes = kSizes;
  sizes.length = 8;
  const auto program = Training("single", 1, sizes);
  ASSERT_OK(program);
  EXPECT_EQ(Found(*program).size(), 2u);
}

// An attention of its own, with what tests change about it.
struct Parts {
  bool causal = true, gradient = true, mask = false, reads_weights = false;
  double dropout = 0;
  DType dtype = kBFloat16;
  int64_t batch = 2, heads = 3, length = 40, memory = 40, d = 8;
};

Targets Build(Graph& graph, const Parts& parts) {
  const Dimension batch{"batch", parts.batch}, heads{"heads", parts.heads},
      length{"length", parts.length}, memory{"memory", parts.memory},
      d{"d", parts.d};
  const auto input = [&](const char* name, Dimension rows) {
    return Cast(Input(graph, name, kFloat32, {batch, rows, heads, d}),
                parts.dtype);
  };
  const Tensor q = input("q", length), k = input("k", memory),
               v = input("v", memory);
  Tensor mask;
  if (parts.mask) mask = Input(graph, "mask", kBool, {length, memory});
  const Tensor o = nn::DotProductAttention(q, k, v,
                                           {.length = length,
                                            .memory_length = memory,
                                            .d_kv = d,
                                            .causal = parts.causal,
                                            .dropout = parts.dropout,
                                            .mask = mask});
  Targets targets;
  targets.fetches = {Cast(o, kFloat32)};
  if (parts.gradient) {
    const Tensor weight = Input(graph, "weight", kFloat32, o.shape());
    const Tensor loss = ReduceSum(Cast(o, kFloat32) * weight, Shape());
    for (Tensor gradient : Gradients(loss, {q, k, v})) {
      targets.fetches.push_back(Cast(gradient, kFloat32));
    }
  }
  return targets;
}

size_t CountIn(const Parts& parts) {
  Graph graph;
  const auto program = LowerText(graph, "", "", Build(graph, parts));
  EXPECT_OK(program);
  return program.ok() ? Found(*program).size() : 99;
}

TEST(FindAttention, OfAnyLengthsCausalOrNotWithAndWithoutGradient) {
  for (bool causal : {false, true}) {
    for (bool gradient : {false, true}) {
      EXPECT_EQ(CountIn({.causal = causal, .gradient = gradient}), 1u)
          << causal << gradient;
      EXPECT_EQ(CountIn({.causal = causal, .gradient = gradient, .length = 33}),
                1u)
          << causal << gradient;
    }
  }
  EXPECT_EQ(CountIn({.batch = 1, .heads = 1}), 1u);
}

TEST(FindAttention, WithMoreToItIsAnother) {
  EXPECT_EQ(CountIn({.mask = true}), 0u);
  EXPECT_EQ(CountIn({.dropout = 0.1}), 0u);
}

// Running it -----------------------------------------------------------------

using Values = std::map<std::string, HostTensor>;

absl::StatusOr<Values> RunOn(const std::string& device_name,
                             const Program& program, const Values& feeds,
                             int* groups) {
  Values outputs;
  LocalRanks ranks{program.mesh};
  MTF_RETURN_IF_ERROR(
      ranks.Run([&](Communicator& communicator) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> counted,
                             CreateDevice(device_name, {}));
        auto device =
            std::make_unique<CountingDevice>(std::move(counted), groups);
        VariableStore store(*device);
        MTF_ASSIGN_OR_RETURN(
            std::unique_ptr<Executor> executor,
            Executor::Create(program, *device, communicator, store));
        for (uint32_t i = 0; i < 2; ++i) {
          MTF_RETURN_IF_ERROR(executor->Run(feeds, 1, i, &outputs));
        }
        return absl::OkStatus();
      }));
  return outputs;
}

TEST(AttentionGroups, GiveWhatTheirPartsGive) {
  for (bool causal : {false, true}) {
    for (bool gradient : {false, true}) {
      for (int64_t length : {40, 29}) {
        Graph graph;
        const Parts parts = {
            .causal = causal, .gradient = gradient, .length = length};
        const auto program = LowerText(graph, "", "", Build(graph, parts));
        ASSERT_OK(program);
        ASSERT_EQ(Found(*program).size(), 1u);
        std::mt19937 random(3);
        Values feeds;
        for (const Instruction& instruction : program->instructions) {
          if (instruction.opcode != Opcode::kInput) continue;
          const ProgramValue& value = program->values[instruction.results[0]];
          HostTensor tensor(value.shape, kFloat32);
          for (int64_t i = 0; i < tensor.num_elements(); ++i) {
            static_cast<float*>(tensor.data())[i] =
                std::normal_distribution<float>(0, 1)(random);
          }
          feeds[instruction.symbol] = std::move(tensor);
        }
        int none = 0, groups = 0;
        const auto want = RunOn("reference", *program, feeds, &none);
        const auto got = RunOn("cuda_emulated", *program, feeds, &groups);
        ASSERT_OK(want);
        ASSERT_OK(got);
        EXPECT_GE(groups, gradient ? 2 : 1);
        for (const auto& [name, numbers] : *want) {
          const float* w = static_cast<const float*>(numbers.data());
          const float* g = static_cast<const float*>(got->at(name).data());
          for (int64_t i = 0; i < numbers.num_elements(); ++i) {
            // The parts round their weights and their gradients to bf16.
            ASSERT_NEAR(g[i], w[i], 0.03 + 0.02 * std::abs(w[i]))
                << name << " " << i << " causal " << causal << " length "
                << length;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mtf::cuda
