// SPDX-License-Identifier: Apache-2.0
#include "lowering/fusion/composed_attention.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/fusion/find_attention.h"
#include "lowering/program/print_program.h"
#include "tests/lowering/fusion/attention_parts.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

// Why each attention of a program is composed, one per line; "fused" for
// attention that is not composed.
std::string Reasons(const absl::StatusOr<Program>& program) {
  if (!program.ok()) return ErrorText(program.status());
  const std::vector<AttentionGroup> fused = FindAttention(*program);
  std::string text;
  for (size_t i = 0; i < fused.size(); ++i) text += "fused\n";
  for (const auto& composed : FindComposedAttention(*program, fused)) {
    EXPECT_EQ(program->instructions[composed.scores].opcode, Opcode::kEinsum);
    text += composed.why + "\n";
  }
  return text;
}

std::string Of(const AttentionParts& parts, const std::string& mesh = "",
               const std::string& layout = "") {
  Graph graph;
  return Reasons(LowerText(graph, mesh, layout, BuildAttention(graph, parts)));
}

TEST(FindComposedAttention, FusedAttentionIsNotReported) {
  for (bool causal : {false, true}) {
    for (bool gradient : {false, true}) {
      EXPECT_EQ(Of({.causal = causal, .gradient = gradient}), "fused\n");
    }
  }
}

TEST(FindComposedAttention, ReportsUnsupportedDTypesAndSizes) {
  EXPECT_EQ(Of({.dtype = kFloat32}),
            "it is computed in f32, and fused kernels take bf16 and f16\n");
  EXPECT_EQ(
      Of({.d = 12}),
      "a head has 12 elements, and fused kernels take multiples of 8 up to "
      "256\n");
  EXPECT_THAT(Of({.d = 264}), HasSubstr("a head has 264 elements"));
  EXPECT_EQ(Of({.causal = false, .length = 1}),
            "its lengths are 1 and 40, and fused kernels take those above 1\n");
}

TEST(FindComposedAttention, ReportsValuesOfAnotherWidth) {
  EXPECT_EQ(Of({.d_v = 8}), "fused\n");
  EXPECT_EQ(Of({.gradient = false, .d_v = 8}), "fused\n");
  for (bool gradient : {false, true}) {
    EXPECT_EQ(Of({.gradient = gradient, .d_v = 16}),
              "its values are not as wide as its keys: d_v is 16, d is 8\n");
  }
  EXPECT_EQ(Of({.d_v = 8}, "data:2,model:2", "d_v:model"),
            "the layout shards d_v over model\n");
}

TEST(FindComposedAttention, ReportsShardedDimensions) {
  const std::string mesh = "data:2,model:2";
  EXPECT_EQ(Of({}, mesh, "batch:data,heads:model"), "fused\n");
  EXPECT_EQ(Of({}, mesh, "length:model"),
            "the layout shards length over model\n");
  EXPECT_EQ(Of({}, mesh, "memory:data+model"),
            "the layout shards memory over data+model\n");
  EXPECT_EQ(Of({}, mesh, "d:model"), "the layout shards d over model\n");
  // Whatever the sizes of the shards.
  EXPECT_EQ(Of({.length = 7, .memory = 9}, mesh, "memory:data"),
            "the layout shards memory over data\n");
  // The sharding is reported first: another dtype would not help.
  EXPECT_EQ(Of({.dtype = kFloat32}, mesh, "length:model"),
            "the layout shards length over model\n");
}

TEST(FindComposedAttention, ReportsDropoutMasksAndScales) {
  EXPECT_EQ(Of({.dropout = 0.1}), "its weights have dropout\n");
  EXPECT_EQ(Of({.mask = "bm"}), "fused\n");
  const std::string why =
      "its mask or bias is not a tensor of batch, heads, length and memory "
      "that "
      "is computed before its scores, or has a gradient\n";
  EXPECT_EQ(Of({.added = "hlm", .trains_added = true}), why);
  // It is computed where it is read.
  EXPECT_EQ(Of({.causal = false,
                .gradient = false,
                .mask = "bhlm",
                .computes_mask = true}),
            why);
  EXPECT_EQ(Of({.added = "lm", .scale = 3}), "fused\n");
  EXPECT_EQ(
      Of({.added = "lm", .scale = -4}),
      "its scores are scaled by -1.41421, and fused kernels take positive "
      "numbers\n");
  EXPECT_EQ(Of({.gradient = false, .dropout = 0.1}),
            "its weights have dropout\n");
}

TEST(FindComposedAttention, ReportsEachLayerAndNoLoss) {
  Graph graph;
  const Transformer model = BuildTransformer(graph, {.layers = 3});
  for (const char* preset :
       {"single", "data", "megatron", "zero3", "sequence", "three_axes"}) {
    const auto program =
        LowerPreset(graph, preset, std::string(preset) == "single" ? 1 : 8,
                    {.fetches = {model.loss}, .updates = {model.step}});
    ASSERT_OK(program);
    EXPECT_EQ(FindComposedAttention(*program, {}).size(), 3u)
        << preset << Reasons(program);
  }
}

}  // namespace
}  // namespace mtf::testing
