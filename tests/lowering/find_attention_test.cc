// SPDX-License-Identifier: Apache-2.0
#include "lowering/find_attention.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/print_program.h"
#include "tests/lowering/attention_parts.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

std::vector<AttentionGroup> Found(
    const Program& program,
    const std::function<bool(const AttentionProblem&)>& accepts = {}) {
  return FindAttention(program, accepts);
}

const TransformerSizes kSizes = {.batch = 4,
                                 .length = 64,
                                 .d_model = 64,
                                 .heads = 4,
                                 .d_kv = 16,
                                 .d_ff = 256,
                                 .vocab = 128,
                                 .dtype = kBFloat16};

absl::StatusOr<Program> Training(const std::string& preset, int64_t ranks,
                                 TransformerSizes sizes = kSizes) {
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
  TransformerSizes wide = kSizes;
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
  TransformerSizes sizes = kSizes;
  sizes.length = 512;
  const auto program = Training("single", 1, sizes);
  ASSERT_OK(program);
  const std::vector<FusedGroup> fused = FusedGroupsOf(Found(*program));
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
  TransformerSizes sizes = kSizes;
  sizes.length = 8;
  const auto program = Training("single", 1, sizes);
  ASSERT_OK(program);
  EXPECT_EQ(Found(*program).size(), 2u);
}

size_t CountIn(const AttentionParts& parts) {
  Graph graph;
  const auto program = LowerText(graph, "", "", BuildAttention(graph, parts));
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

}  // namespace
}  // namespace mtf::testing
