// SPDX-License-Identifier: Apache-2.0
//
// Which attentions are instructions on a device with fused kernels, and why the
// others are composed.
#include "lowering/program/fused_attention.h"

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/attributes.h"
#include "nn/attention/attention.h"
#include "ops/attention.h"
#include "tests/lowering/attention_parts.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Program> LowerFused(const AttentionParts& parts,
                                   const std::string& mesh = "",
                                   const std::string& layout = "") {
  Graph graph;
  const Targets targets = BuildAttention(graph, parts);
  return LowerText(graph, mesh, layout, targets,
                   {.attention = AttentionSupport::kFusedKernels});
}

int Count(const Program& program, Opcode opcode) {
  int count = 0;
  for (const Instruction& instruction : program.instructions) {
    count += instruction.opcode == opcode;
  }
  return count;
}

// "" if the attention is an instruction, else why not.
std::string Why(const AttentionParts& parts, const std::string& mesh = "",
                const std::string& layout = "") {
  const auto program = LowerFused(parts, mesh, layout);
  if (!program.ok()) return std::string(program.status().message());
  const int forward = Count(*program, Opcode::kAttention);
  const int backward = Count(*program, Opcode::kAttentionGradient);
  EXPECT_EQ(forward + program->composed_attention.size(), 1);
  EXPECT_EQ(backward, forward > 0 && parts.gradient ? 1 : 0);
  if (program->composed_attention.empty()) return "";
  EXPECT_EQ(program->composed_attention[0].origin.operation,
            "dot_product/attention");
  return program->composed_attention[0].why;
}

TEST(FusedAttention, EveryLayerHasOneInstructionForEachDirection) {
  for (const char* layout : {"", "batch:data", "heads:data", "d_ff:data",
                             "batch:data;[parameters];d_model:data"}) {
    Graph graph;
    const Transformer model =
        BuildTransformer(graph, {.layers = 3, .d_kv = 8, .dtype = kBFloat16});
    const auto program =
        LowerText(graph, "data:2", layout,
                  {.fetches = {model.loss}, .updates = {model.step}},
                  {.attention = AttentionSupport::kFusedKernels});
    ASSERT_OK(program);
    EXPECT_EQ(Count(*program, Opcode::kAttention), 3) << layout;
    EXPECT_EQ(Count(*program, Opcode::kAttentionGradient), 3) << layout;
    EXPECT_TRUE(program->composed_attention.empty());
  }
}

TEST(FusedAttention, TakesMasksAndBiasesOverAnyDimensions) {
  for (const char* mask : {"", "m", "bm", "mlhb", "bl"}) {
    for (const char* added : {"", "lm", "hlm"}) {
      EXPECT_EQ(Why({.mask = mask, .added = added}), "") << mask << added;
    }
  }
}

TEST(FusedAttention, StatesWhatKernelsDoNotSupport) {
  EXPECT_EQ(Why({.dtype = kFloat16}), "");
  EXPECT_EQ(Why({.dtype = kFloat32}),
            "it is computed in f32, and fused kernels take bf16 and f16");
  EXPECT_THAT(Why({.d = 12}), HasSubstr("a head has 12 elements"));
  EXPECT_THAT(Why({.length = 1}), HasSubstr("its lengths are 1 and 40"));
  EXPECT_EQ(Why({.dropout = 0.1}),
            "it has dropout, which fused kernels do not support");
  EXPECT_EQ(Why({.added = "hlm", .trains_added = true}),
            "it has a trained bias, which fused kernels do not support");
  EXPECT_EQ(Why({.d_v = 8}), "");
  EXPECT_THAT(Why({.d_v = 16}), HasSubstr("d has 8 elements and d_v 16"));
}

// The limits of the gradient do not hold for a forward pass alone.
TEST(FusedAttention, GradientsHaveLimitsOfTheirOwn) {
  for (const bool gradient : {false, true}) {
    const auto is_composed = [&](AttentionParts parts) {
      parts.gradient = gradient;
      return !Why(parts).empty();
    };
    EXPECT_EQ(is_composed({.causal = true, .length = 41}), gradient);
    EXPECT_EQ(is_composed({.causal = false, .memory = 64}), gradient);
    EXPECT_EQ(is_composed({.causal = false, .memory = 192}), gradient);
    EXPECT_FALSE(is_composed({.causal = true, .memory = 64}));
    EXPECT_FALSE(is_composed({.causal = false, .memory = 128}));
    EXPECT_FALSE(is_composed({.causal = false, .length = 41}));
  }
}

TEST(FusedAttention, QueriesMayBeShardedEvenlyIfNotCausal) {
  const AttentionParts all = {.causal = false, .length = 40};
  EXPECT_EQ(Why(all, "model:4", "length:model"), "");
  AttentionParts uneven = all;
  uneven.length = 42;
  EXPECT_THAT(Why(uneven, "model:4", "length:model"),
              HasSubstr("the layout shards length over model unevenly"));
  EXPECT_THAT(
      Why({.length = 40}, "model:4", "length:model"),
      HasSubstr("the layout shards length over model in causal attention"));
  EXPECT_EQ(Why(all, "model:4", "memory:model"),
            "the layout shards memory over model");
  EXPECT_EQ(Why(all, "data:2,model:2", "d:data+model"),
            "the layout shards d over data+model");
}

// Attention from other operations than nn::DotProductAttention.
TEST(FusedAttention, StatesWhatElseItIsComposedFor) {
  const Dimension batch{"batch", 2}, heads{"heads", 4}, groups{"groups", 2},
      length{"length", 16}, memory{"memory", 16}, d{"d", 8};
  struct Case {
    const char* why;
    std::function<void(AttentionOperands<Tensor>&, AttentionSpec&)> change;
  };
  const auto input = [&](Graph& graph, const char* name, Shape shape,
                         DType dtype = kBFloat16) {
    return Input(graph, name, dtype, std::move(shape));
  };
  const Case cases[] = {
      {"", [](auto&, auto&) {}},
      {"it has a window", [](auto&, auto& p) { p.window = 3; }},
      {"it has a soft cap", [](auto&, auto& p) { p.soft_cap = 30; }},
      {"its scores are scaled by -1", [](auto&, auto& p) { p.scale = -1; }},
      {"it has an offset of the queries",
       [&](auto& o, auto& p) {
         p.causal = true;
         o.offset = input(o.q.graph(), "offset", {}, kInt32);
       }},
      {"it has an extra logit",
       [&](auto& o, auto&) {
         o.extra_logit = input(o.q.graph(), "extra", {heads});
       }},
      {"lack a dimension of the queries",
       [&](auto& o, auto&) {
         o.k = input(o.q.graph(), "k2", {batch, memory, d});
       }},
      {"besides length and d",
       [&](auto& o, auto&) {
         Graph& graph = o.q.graph();
         o.q = input(graph, "q2", {batch, groups, heads, length, d});
         o.k = input(graph, "k2", {batch, groups, heads, memory, d});
         o.v = input(graph, "v2", {batch, groups, heads, memory, d});
       }},
      {"is not the last dimension",
       [&](auto& o, auto&) {
         o.k = input(o.q.graph(), "k2", {batch, heads, d, memory});
       }},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.why);
    Graph graph;
    AttentionOperands<Tensor> operands = {
        input(graph, "q", {batch, heads, length, d}),
        input(graph, "k", {batch, heads, memory, d}),
        input(graph, "v", {batch, heads, memory, d})};
    AttentionSpec parameters = {
        .length = "length", .memory_length = "memory", .d_kv = "d", .d_v = "d"};
    each.change(operands, parameters);
    const Tensor output = Attention(operands, parameters).output;
    const auto program =
        LowerText(graph, "", "", {.fetches = {Cast(output, kFloat32)}},
                  {.attention = AttentionSupport::kFusedKernels});
    ASSERT_OK(program);
    const bool is_composed = *each.why != '\0';
    ASSERT_EQ(program->composed_attention.size(), is_composed ? 1u : 0u);
    EXPECT_EQ(Count(*program, Opcode::kAttention), is_composed ? 0 : 1);
    if (!is_composed) continue;
    EXPECT_THAT(program->composed_attention[0].why, HasSubstr(each.why));
  }
}

// On the CPU, layouts are the only reason.
TEST(ComposedAttention, StatesTheLayoutOnDevicesWithEveryAttention) {
  for (const char* layout : {"length:model", "memory:model"}) {
    Graph graph;
    const Targets targets = BuildAttention(graph, {.dtype = kFloat32});
    const auto program = LowerText(graph, "model:4", layout, targets,
                                   {.attention = AttentionSupport::kAll});
    ASSERT_OK(program);
    const bool is_composed = layout[0] == 'm';
    EXPECT_EQ(program->composed_attention.size(), is_composed ? 1u : 0u);
  }
}

TEST(AttentionProblemOf, HasTheExtentsAndStridesOfOneDevice) {
  const auto program = LowerFused(
      {.mask = "mb", .added = "hlm", .batch = 4, .heads = 6, .d = 16},
      "data:2,model:3", "batch:data,heads:model");
  ASSERT_OK(program);
  for (const Instruction& instruction : program->instructions) {
    if (instruction.opcode != Opcode::kAttention &&
        instruction.opcode != Opcode::kAttentionGradient) {
      continue;
    }
    const AttentionProblem problem = AttentionProblemOf(*program, instruction);
    // q is [batch, length, heads, d].
    EXPECT_EQ(
        absl::StrCat(problem.ToString()),
        absl::StrCat("bf16 batch 2 heads 2 length 40 memory 40 d 16 q "
                     "1280/16/32 k 1280/16/32 v 1280/16/32 o 1280/16/32 "
                     "scale 0.25 bias bhlm causal",
                     problem.backward ? " backward" : "", " reproducible"));
    const LogitStrides mask =
        LogitStridesOf(*program, instruction, instruction.operands[3]);
    EXPECT_EQ(mask.batch, 1);
    EXPECT_EQ(mask.heads, 0);
    EXPECT_EQ(mask.length, 0);
    EXPECT_EQ(mask.memory, 2);
  }
}

}  // namespace
}  // namespace mtf::testing
