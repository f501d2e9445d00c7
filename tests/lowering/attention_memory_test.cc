// SPDX-License-Identifier: Apache-2.0
//
// The planned memory of a training step of a transformer, with attention as an
// instruction and composed.
#include <cstdint>

#include "lowering/lower.h"
#include "tests/lowering/small_transformer.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::BuildTransformer;
using ::mtf::testing::Transformer;

// The bytes of the step's arena for sequences of `length`.
double ArenaBytes(int64_t length, AttentionSupport attention,
                  const std::string& rules = "") {
  Graph graph;
  const Transformer model = BuildTransformer(graph, {.layers = 2,
                                                     .batch = 1,
                                                     .length = length,
                                                     .d_model = 64,
                                                     .heads = 8,
                                                     .d_kv = 8,
                                                     .d_ff = 256,
                                                     .vocab = 256});
  const auto binding = BindLayout(graph, *Mesh::Parse("data:2,model:2"),
                                  *LayoutRules::Parse(rules, "test"));
  EXPECT_OK(binding);
  const auto program =
      Lower(graph, *binding, {.fetches = {model.loss}, .updates = {model.step}},
            {.attention = attention});
  EXPECT_OK(program);
  int instructions = 0;
  for (const Instruction& instruction : program->instructions) {
    instructions += instruction.opcode == Opcode::kAttention ||
                    instruction.opcode == Opcode::kAttentionGradient;
  }
  EXPECT_EQ(instructions, attention == AttentionSupport::kAll ? 4 : 0);
  return static_cast<double>(program->buffers.arena_bytes);
}

TEST(AttentionMemory, GrowsLinearlyWithTheLength) {
  for (const char* rules : {"", "heads:model", "length:data, heads:model"}) {
    SCOPED_TRACE(rules);
    const double first = ArenaBytes(1024, AttentionSupport::kAll, rules),
                 second = ArenaBytes(2048, AttentionSupport::kAll, rules),
                 third = ArenaBytes(4096, AttentionSupport::kAll, rules);
    EXPECT_NEAR((third - second) / (second - first), 2, 0.1);
  }
}

TEST(AttentionMemory, ComposedAttentionHoldsAMatrixForEachHead) {
  const double composed = ArenaBytes(2048, AttentionSupport::kNone);
  constexpr double kLogits = 8 * 2048.0 * 2048.0 * 4;
  EXPECT_GT(composed, 2 * kLogits);
  EXPECT_LT(ArenaBytes(2048, AttentionSupport::kAll), kLogits / 4);
}

// A rule for the keys' length, or for the depth of a head, leads to the
// composition.
TEST(AttentionMemory, RulesForSummedDimensionsComposeAttention) {
  for (const char* rules : {"memory_length:data", "d_kv:model"}) {
    SCOPED_TRACE(rules);
    Graph graph;
    const Transformer model = BuildTransformer(graph);
    const auto binding = BindLayout(graph, *Mesh::Parse("data:2,model:2"),
                                    *LayoutRules::Parse(rules, "test"));
    ASSERT_OK(binding);
    const auto program = Lower(
        graph, *binding, {.fetches = {model.loss}, .updates = {model.step}},
        {.attention = AttentionSupport::kAll});
    ASSERT_OK(program);
    for (const Instruction& instruction : program->instructions) {
      EXPECT_NE(instruction.opcode, Opcode::kAttention);
      EXPECT_NE(instruction.opcode, Opcode::kAttentionGradient);
    }
  }
}

}  // namespace
}  // namespace mtf
