// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/find_attention.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "layouts/layout_rules.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/program/print_program.h"
#include "ops/reshape.h"
#include "tests/lowering/fusion/attention_parts.h"
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

TEST(FindAttention, FindsEveryLayerForwardAndBackward) {
  const auto program = Training("single", 1);
  ASSERT_OK(program);
  const std::vector<AttentionGroup> groups = Found(*program);
  ASSERT_EQ(groups.size(), 2u) << PrintProgram(*program);
  std::set<int> members;
  for (const AttentionGroup& group : groups) {
    // From the scores to the output, and the five einsums of the gradient
    // except the recomputed scores.
    const auto einsums = [&](const std::vector<int>& instructions) {
      int count = 0;
      for (int instruction : instructions) {
        EXPECT_TRUE(members.insert(instruction).second);
        count += program->instructions[instruction].opcode == Opcode::kEinsum;
      }
      return count;
    };
    EXPECT_EQ(einsums(group.forward), 2);
    EXPECT_EQ(einsums(group.backward), 4);
    const AttentionProblem& p = group.problem;
    EXPECT_EQ(p.ToString(),
              "bf16 batch 4 heads 4 length 64 memory 64 d 16 q 4096/16/64 k "
              "4096/16/64 v 4096/16/64 o 4096/16/64 scale 0.25 causal");
    EXPECT_TRUE(group.BackwardProblem().backward);
    // The scores are scaled, not q.
    EXPECT_THAT(program->values[group.q].name, ::testing::HasSubstr("query"));
    EXPECT_THAT(program->values[group.d_v].name,
                ::testing::HasSubstr("einsum_1_grad_1"));
  }
}

// Scores in float16 could overflow before they are scaled, so q is scaled: the
// number stays in the program.
TEST(FindAttention, FindsFloat16WithScaledQueries) {
  TransformerSizes sizes = kSizes;
  sizes.dtype = kFloat16;
  const auto program = Training("single", 1, sizes);
  ASSERT_OK(program);
  const std::vector<AttentionGroup> groups = Found(*program);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].problem.scale, 1);
  EXPECT_THAT(program->values[groups[0].q].name, ::testing::HasSubstr("mul"));
}

TEST(FindAttention, HeadsAndBatchMayBeShardedButNotLengths) {
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

// Whatever else the preset shards, and wherever its collectives start.
TEST(FindAttention, FindsItUnderEveryPresetWithUnshardedLengths) {
  for (const std::string& preset : LayoutRules::PresetNames()) {
    if (preset == "sequence" || preset == "three_axes") continue;
    for (int64_t ranks : {4, 8}) {
      SCOPED_TRACE(absl::StrCat(preset, " ", ranks));
      TransformerSizes sizes = kSizes;
      sizes.batch = 8;
      sizes.heads = 8;
      sizes.d_kv = 8;
      const auto program =
          Training(preset, preset == "single" ? 1 : ranks, sizes);
      ASSERT_OK(program);
      const std::vector<AttentionGroup> groups = Found(*program);
      ASSERT_EQ(groups.size(), 2u);
      for (const AttentionGroup& group : groups) {
        EXPECT_FALSE(group.backward.empty());
        EXPECT_EQ(group.problem.length, 64);
      }
    }
  }
}

TEST(FindAttention, UnsupportedProblemsStayComposed) {
  TransformerSizes wide = kSizes;
  wide.dtype = kFloat32;
  const auto program = Training("single", 1, wide);
  ASSERT_OK(program);
  EXPECT_EQ(Found(*program).size(), 0u);
  const auto narrow = Training("single", 1);
  ASSERT_OK(narrow);
  // Both directions or none: the backward kernel reads what the forward kernel
  // keeps.
  EXPECT_EQ(
      Found(*narrow, [](const AttentionProblem& p) { return !p.backward; })
          .size(),
      0u);
}

TEST(FindAttention, ScoresAndWeightsHaveNoMemory) {
  TransformerSizes sizes = kSizes;
  sizes.length = 512;
  const auto program = Training("single", 1, sizes);
  ASSERT_OK(program);
  const std::vector<FusedGroup> fused = FusedGroupsOf(Found(*program));
  ASSERT_EQ(fused.size(), 4u);
  const BufferPlan plan = PlanBuffersOf(*program, fused);
  const int64_t scores = sizes.batch * sizes.heads * 512 * 512;
  // A composed layer keeps exponentials in f32 and weights in bf16.
  EXPECT_GT(program->buffers.arena_bytes, 2 * 6 * scores);
  EXPECT_LT(plan.arena_bytes, program->buffers.arena_bytes - 2 * 5 * scores);
  for (size_t v = 0; v < program->values.size(); ++v) {
    if (program->values[v].local_elements() != scores) continue;
    const bool kept =
        program->values[v].name.find("cast_1") != std::string::npos &&
        plan.buffers[v].storage == BufferPlan::Storage::kArena;
    EXPECT_TRUE(kept || plan.buffers[v].storage == BufferPlan::Storage::kNone)
        << program->values[v].name;
  }
}

TEST(FindAttention, FindsShortLengths) {
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

TEST(FindAttention, FindsAnyLengthsCausalOrNotWithAndWithoutGradient) {
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

TEST(FindAttention, OtherFormulasStayComposed) {
  EXPECT_EQ(CountIn({.dropout = 0.1}), 0u);
  EXPECT_EQ(CountIn({.mask = "bm", .dropout = 0.1}), 0u);
}

// Fused kernels use the largest product, which is then not the largest score.
TEST(FindAttention, NeedsPositiveScales) {
  for (bool gradient : {false, true}) {
    const auto count = [&](double scale) {
      return CountIn({.gradient = gradient, .added = "lm", .scale = scale});
    };
    EXPECT_EQ(count(3), 1u);
    EXPECT_EQ(count(1e-3), 1u);
    EXPECT_EQ(count(0), 0u);
    EXPECT_EQ(count(-1), 0u);
  }
}

TEST(FindAttention, FindsMasksOverSomeDimensions) {
  for (const char* mask :
       {"m", "bm", "mb", "l", "bl", "lm", "blm", "hlm", "bhlm", "mlhb", "bh"}) {
    for (bool causal : {false, true}) {
      for (bool gradient : {false, true}) {
        EXPECT_EQ(
            CountIn({.causal = causal, .gradient = gradient, .mask = mask}), 1u)
            << mask << causal << gradient;
        EXPECT_EQ(
            CountIn({.causal = causal, .gradient = gradient, .added = mask}),
            1u)
            << mask << causal << gradient;
      }
    }
  }
  EXPECT_EQ(CountIn({.mask = "bm", .added = "hlm"}), 1u);
  EXPECT_EQ(CountIn({.mask = "bm", .added = "hlm", .added_dtype = kBFloat16}),
            1u);
  // The mask that users compute from their tokens.
  EXPECT_EQ(CountIn({.mask = "bm", .computes_mask = true}), 1u);
}

TEST(FindAttention, MasksBecomeOneBias) {
  Graph graph;
  const auto program = LowerText(
      graph, "data:2,model:3", "batch:data,heads:model",
      BuildAttention(graph, {.mask = "mb", .added = "hlm", .length = 20}));
  ASSERT_OK(program);
  const std::vector<AttentionGroup> groups = Found(*program);
  ASSERT_EQ(groups.size(), 1u);
  const AttentionGroup& group = groups[0];
  const AttentionProblem& p = group.problem;
  EXPECT_TRUE(p.causal);
  EXPECT_EQ(p.batch, 1);
  EXPECT_EQ(p.bias,
            (AttentionProblem::Bias{
                .given = true, .batch = true, .heads = true, .length = true}));
  EXPECT_EQ(program->values[group.visible.value].dtype, kBool);
  EXPECT_EQ(group.visible.memory, 1);  // the shard has one batch element
  EXPECT_EQ(group.visible.length, 0);
  EXPECT_EQ(group.added.length, 40);
  // The kept buffer has room for it after the sums.
  EXPECT_EQ(group.bias_offset() % 256, 0);
  EXPECT_EQ(group.kept_bytes(),
            group.bias_offset() + 20 * 40 * 4 + /*first seen*/ 20 * 4);
}

// Padding masks in consecutive layers, under layouts that name the dimensions
// of the layers and under those that do not.
TEST(FindAttention, FindsPaddingMasksInEveryLayer) {
  struct Case {
    const char* layout;
    size_t fused;
  };
  // If length is sharded, the first layer gathers its mask after its scores.
  for (const auto& [layout, fused] :
       {Case{"", 2}, Case{"batch:data", 2}, Case{"heads:model", 2},
        Case{"batch:data, block_length:replicated, attention_heads:model", 2},
        Case{"length:model, block_length:replicated, "
             "attention_length:replicated, "
             "attention_heads:model",
             1}}) {
    for (bool causal : {false, true}) {
      Graph graph;
      const Dimension batch{"batch", 4}, length{"length", 16},
          model{"d_model", 32}, memory{"memory_length", 16};
      const Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
      const Tensor seen = Rename(Greater(tokens, 0), length.name, memory.name);
      Tensor x =
          Cast(Input(graph, "x", kFloat32, {batch, length, model}), kBFloat16);
      const Tensor first = x;
      for (int i = 0; i < 2; ++i) {
        x = x + nn::SelfAttention(x, {.length = length,
                                      .heads = {"heads", 4},
                                      .d_kv = {"d_kv", 8},
                                      .causal = causal,
                                      .mask = seen,
                                      .name = absl::StrCat("layer_", i)});
      }
      const Tensor loss = ReduceSum(Cast(x, kFloat32) * 0.5, Shape());
      const auto program =
          LowerText(graph, "data:2,model:2", layout,
                    {.fetches = {loss, Gradients(loss, {first})[0]}});
      ASSERT_OK(program);
      EXPECT_EQ(Found(*program).size(), fused)
          << layout << " causal " << causal;
    }
  }
}

// A mask that the model converts to numbers once is read unchanged by every
// layer.
TEST(FindAttention, FindsBiasesSharedByAllLayers) {
  Graph graph;
  const Dimension batch{"batch", 2}, heads{"heads", 3}, length{"length", 40},
      memory{"memory", 40}, d{"d", 8};
  const Shape scores = {batch, heads, length, memory};
  const Tensor added =
      (Cast(Input(graph, "seen", kBool, scores), kFloat32) - 1.0) * 1e9;
  const Tensor first =
      Cast(Input(graph, "x", kFloat32, {batch, length, heads, d}), kBFloat16);
  Tensor x = first;
  for (int i = 0; i < 3; ++i) {
    const Tensor memories = Rename(x, length.name, memory.name);
    x = BiasedAttention(x, memories, memories, Tensor(), added, scores,
                        {.causal = false});
  }
  const Tensor loss = ReduceSum(Cast(x, kFloat32) * 0.5, Shape());
  const auto program = LowerText(
      graph, "", "", {.fetches = {loss, Gradients(loss, {first})[0]}});
  ASSERT_OK(program);
  EXPECT_EQ(Found(*program).size(), 3u) << PrintProgram(*program);
}

TEST(FindAttention, TrainedBiasStaysComposed) {
  EXPECT_EQ(CountIn({.added = "hlm", .trains_added = true}), 0u);
  EXPECT_EQ(CountIn({.added = "lm", .trains_added = true}), 0u);
}

}  // namespace
}  // namespace mtf::testing
