// SPDX-License-Identifier: Apache-2.0
//
// Memory and time of a program on machines with fused kernels.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/attention_size.h"
#include "lowering/program/fused_attention.h"
#include "nlohmann/json.hpp"
#include "planning/cost/check_budget.h"
#include "planning/cost/estimate_time.h"
#include "planning/explain/explain.h"
#include "planning/search/search_layouts.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const TransformerSizes kSizes = {.batch = 4,
                                 .length = 256,
                                 .d_model = 64,
                                 .heads = 4,
                                 .d_kv = 16,
                                 .d_ff = 256,
                                 .vocab = 128,
                                 .dtype = kBFloat16};

struct Step {
  Graph graph;
  Targets targets;
  explicit Step(const TransformerSizes& sizes = kSizes) {
    const Transformer model = BuildTransformer(graph, sizes);
    targets = {.fetches = {model.loss}, .updates = {model.step}};
  }
  absl::StatusOr<Program> Lowered(AttentionSupport attention) const {
    return LowerText(graph, "", "", targets, {.attention = attention});
  }
  absl::StatusOr<Explanation> On(const std::string& machine,
                                 const std::string& mesh = "",
                                 const std::string& layout = "",
                                 bool changes = false) const {
    return Explain(graph, *Mesh::Parse(mesh),
                   *LayoutRules::Parse(layout, "--layout"), targets,
                   *Machine::Load(machine), {.changes = changes});
  }
};

TEST(FuseForMachine, OmitsTheValuesInsideGroups) {
  const Step step;
  auto program = step.Lowered(AttentionSupport::kFusedKernels);
  ASSERT_OK(program);
  const int64_t single = program->buffers.arena_bytes;
  ASSERT_OK(FuseFor(Machine::Load("a100_nvlink_ib")->fusion(), *program));
  EXPECT_TRUE(program->groups.empty());
  EXPECT_EQ(program->buffers.arena_bytes, single);
  ASSERT_OK(FuseFor(Machine::Load("h200_x8")->fusion(), *program));
  EXPECT_FALSE(program->groups.empty());
  EXPECT_LT(program->buffers.arena_bytes, single);
}

TEST(FuseForMachine, FusedAttentionHoldsNoLogits) {
  const Step step;
  const Machine machine = *Machine::Load("h200_x8");
  auto fused = step.Lowered(machine.attention());
  auto composed = step.Lowered(AttentionSupport::kNone);
  ASSERT_OK(fused);
  ASSERT_OK(composed);
  ASSERT_OK(FuseFor(machine.fusion(), *fused));
  ASSERT_OK(FuseFor(machine.fusion(), *composed));
  // Composed attention keeps weights in bf16 and exponentials in f32 for the
  // backward pass of each layer.
  const int64_t scores = kSizes.batch * kSizes.heads * 256 * 256;
  EXPECT_LT(fused->buffers.arena_bytes,
            composed->buffers.arena_bytes - 2 * 2 * scores);
}

TEST(EstimateStep, FusedAttentionHasItsMeasuredTime) {
  const Step step;
  const Machine machine = *Machine::Load("h200_x8");
  auto fused = step.Lowered(machine.attention());
  auto composed = step.Lowered(AttentionSupport::kNone);
  ASSERT_OK(fused);
  ASSERT_OK(composed);
  const StepEstimate estimate = EstimateStep(*fused, machine);
  EXPECT_LT(estimate.seconds, EstimateStep(*composed, machine).seconds);
  int attentions = 0;
  for (const TimedInstruction& timed : estimate.timeline) {
    const Instruction& instruction = fused->instructions[timed.instruction];
    if (!IsAttention(instruction.opcode)) continue;
    ++attentions;
    EXPECT_NEAR(
        timed.end - timed.begin,
        machine.AttentionSeconds(AttentionProblemOf(*fused, instruction)),
        1e-12);
  }
  EXPECT_EQ(attentions, 2 * 2);
}

TEST(Explain, CountsTheInstructionsOfAttention) {
  const Step step;
  const auto fused = step.On("h200_x8"), composed = step.On("a100_nvlink_ib");
  ASSERT_OK(fused);
  ASSERT_OK(composed);
  EXPECT_EQ(fused->attention.instructions, 2);
  EXPECT_TRUE(fused->attention.composed.empty());
  // No reason is given if the machine has no instruction for any attention.
  EXPECT_EQ(composed->attention.instructions, 0);
  EXPECT_TRUE(composed->attention.composed.empty());
  const auto json = nlohmann::json::parse(ExplainJson(*fused));
  EXPECT_EQ(json["attention"]["instructions"], 2);
  const auto kernels = std::count_if(
      fused->timeline.begin(), fused->timeline.end(),
      [](const auto& entry) { return entry.name.rfind("attention", 0) == 0; });
  EXPECT_EQ(kernels, 2 * 2);
}

TEST(Explain, ReportsWhyAttentionIsComposed) {
  const auto sharded = Step().On("h200_x8", "model:4", "length:model");
  ASSERT_OK(sharded);
  ASSERT_EQ(sharded->attention.composed.size(), 2u);
  EXPECT_EQ(sharded->attention.instructions, 0);
  EXPECT_EQ(sharded->attention.composed[1].module, "layer_1/attention");
  EXPECT_THAT(ExplainFullText(*sharded, 200),
              HasSubstr("attention is composed of einsums: "
                        "layer_0..1/attention/dot_product/attention ("));
  EXPECT_THAT(ExplainFullText(*sharded, 200),
              HasSubstr("): the layout shards length over model in causal "));
}

// The tensors alive at the peak and the unused bytes add up to the arena.
TEST(Explain, PartsOfFusedMemoryAddUp) {
  for (const char* layout : {"", "batch:data", "heads:data", "d_ff:data",
                             "batch:data;[parameters];d_model:data"}) {
    const auto e = Step().On("h200_x8", "data:2", layout);
    ASSERT_OK(e);
    EXPECT_EQ(e->memory.parts.total(), e->memory.total) << layout;
    int64_t alive = 0;
    for (const ExplainedTensor& tensor : e->memory.alive) {
      alive += tensor.bytes;
      EXPECT_THAT(tensor.name, Not(HasSubstr("dot_product/einsum")));
    }
    EXPECT_EQ(alive + e->memory.parts.unused, e->memory.arena) << layout;
    EXPECT_GE(e->memory.parts.unused, 0) << layout;
    EXPECT_LT(e->memory.parts.unused, e->memory.arena / 10) << layout;
  }
}

TEST(CheckBudget, NamesTheSameTensorsAsTheExplanation) {
  TransformerSizes sizes = kSizes;
  sizes.length = 512;
  const Step step(sizes);
  const Machine machine = *Machine::Load("h100_nvlink_ib");
  auto program = step.Lowered(machine.attention());
  ASSERT_OK(program);
  ASSERT_OK(FuseFor(machine.fusion(), *program));
  const auto fused = step.On("h100_nvlink_ib");
  ASSERT_OK(fused);
  Budget budget;
  ASSERT_OK(budget.Add("memory at most 1 KiB", {.origin = "b.layout"}));
  const absl::Status status = CheckBudget(*program, budget);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr(absl::StrCat(fused->memory.total, " bytes"))));
  const std::vector<ExplainedTensor>& alive = fused->memory.alive;
  ASSERT_GT(alive.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat(alive[i].name, " ", alive[i].type, ", ",
                                       alive[i].bytes, " bytes")));
  }
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("and ", alive.size() - 3, " more alive")));
}

// The cost of a change uses the memory and kernels of the machine.
TEST(Explain, EstimatesChangesForTheMachine) {
  const Step step;
  const auto sharded = step.On("h200_x8", "model:4", "length:model", true);
  ASSERT_OK(sharded);
  bool found = false;
  for (const RuleChange& change : sharded->changes) {
    const auto changed = step.On("h200_x8", "model:4", change.layout);
    ASSERT_OK(changed);
    EXPECT_EQ(changed->cost.memory_bytes, change.cost.memory_bytes);
    EXPECT_EQ(changed->cost.seconds, change.cost.seconds);
    found = found || changed->attention.instructions == 2;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace mtf::testing
