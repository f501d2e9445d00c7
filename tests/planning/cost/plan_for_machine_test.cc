// SPDX-License-Identifier: Apache-2.0
//
// Memory and time of a program on machines that fuse attention.
#include "lowering/passes/plan_for_machine.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/fusion/find_attention.h"
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
  absl::StatusOr<Program> Lowered(const std::string& mesh,
                                  const std::string& layout) const {
    return LowerText(graph, mesh, layout, targets);
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

TEST(PlanForMachine, OmitsTheValuesInsideFusedAttention) {
  const Step step;
  auto program = step.Lowered("", "");
  ASSERT_OK(program);
  const BufferPlan own = program->buffers;
  PlanForMachine(Machine::Load("a100_nvlink_ib")->fusion(), *program);
  EXPECT_EQ(program->buffers.arena_bytes, own.arena_bytes);
  EXPECT_TRUE(FindPlannedAttention(*program).empty());
  EXPECT_TRUE(PlanOf(*program).groups.empty());
  PlanForMachine(Machine::Load("h200_x8")->fusion(), *program);
  const int64_t composed = ArenaWithComposedAttention(*program);
  ASSERT_EQ(FindPlannedAttention(*program).size(), 2u);
  // Composed attention keeps weights in bf16 and exponentials in f32 for the
  // backward pass of each layer.
  const int64_t scores = kSizes.batch * kSizes.heads * 256 * 256;
  EXPECT_LT(program->buffers.arena_bytes, composed - 2 * 2 * scores);
  for (const AttentionGroup& group : FindPlannedAttention(*program)) {
    for (int member : group.forward) {
      const int value = program->instructions[member].results[0];
      const bool stored = value == group.o || value == group.weights;
      EXPECT_EQ(
          program->buffers.buffers[value].storage,
          stored ? BufferPlan::Storage::kArena : BufferPlan::Storage::kNone)
          << program->values[value].name;
    }
  }
}

TEST(PlanForMachine, PlansTheDeviceMemoryOfUnfusedAttention) {
  TransformerSizes wide = kSizes;
  wide.dtype = kFloat32;
  const Step step(wide);
  auto program = step.Lowered("", "");
  ASSERT_OK(program);
  PlanForMachine(Machine::Load("h200_x8")->fusion(), *program);
  EXPECT_EQ(program->buffers.arena_bytes, ArenaWithComposedAttention(*program));
}

TEST(EstimateStep, FusedAttentionIsOneKernelPerDirection) {
  const Step step;
  auto program = step.Lowered("", "");
  ASSERT_OK(program);
  const Machine machine = *Machine::Load("h200_x8");
  EXPECT_TRUE(EstimateStep(*program, machine).attention.empty());
  const double composed = EstimateStep(*program, machine).seconds;
  PlanForMachine(machine.fusion(), *program);
  const StepEstimate fused = EstimateStep(*program, machine);
  ASSERT_EQ(fused.attention.size(), 2u);
  EXPECT_LT(fused.seconds, composed);
  std::vector<double> seconds(program->instructions.size(), -1);
  double sum = 0;
  for (const TimedInstruction& timed : fused.timeline) {
    EXPECT_EQ(seconds[timed.instruction], -1);
    seconds[timed.instruction] = timed.end - timed.begin;
    sum += timed.end - timed.begin;
  }
  EXPECT_NEAR(sum, fused.seconds, 1e-12);
  for (const AttentionGroup& group : fused.attention) {
    EXPECT_DOUBLE_EQ(seconds[group.forward.front()],
                     machine.AttentionSeconds(group.problem));
    EXPECT_DOUBLE_EQ(seconds[group.backward.front()],
                     machine.AttentionSeconds(group.BackwardProblem()));
    for (size_t i = 1; i < group.forward.size(); ++i) {
      EXPECT_EQ(seconds[group.forward[i]], -1);
    }
  }
}

TEST(Explain, ReportsWhatFusedAttentionSaves) {
  const Step step;
  const auto fused = step.On("h200_x8"), composed = step.On("a100_nvlink_ib");
  ASSERT_OK(fused);
  ASSERT_OK(composed);
  EXPECT_TRUE(fused->attention.machine_fuses);
  EXPECT_EQ(fused->attention.fused, 2);
  EXPECT_TRUE(fused->attention.composed.empty());
  EXPECT_FALSE(composed->attention.machine_fuses);
  EXPECT_EQ(composed->attention.saved_bytes, 0);
  auto program = step.Lowered("", "");
  ASSERT_OK(program);
  PlanForMachine(Machine::Load("h200_x8")->fusion(), *program);
  EXPECT_EQ(fused->memory.arena, program->buffers.arena_bytes);
  EXPECT_EQ(fused->attention.saved_bytes,
            ArenaWithComposedAttention(*program) - fused->memory.arena);
  EXPECT_THAT(
      ExplainFullText(*fused, 120),
      HasSubstr("attention is fused on this machine: 2 groups, saves "));
  EXPECT_THAT(ExplainFullText(*fused, 120), HasSubstr("fused attention"));
  EXPECT_THAT(ExplainFullText(*composed, 120), Not(HasSubstr("fused")));
  const auto json = nlohmann::json::parse(ExplainJson(*fused));
  EXPECT_EQ(json["attention"]["fused"], 2);
  EXPECT_EQ(json["attention"]["saved_bytes"], fused->attention.saved_bytes);
  int inside = 0;
  double seconds = 0;
  for (const ExplainedEinsum& einsum : fused->einsums) {
    inside += einsum.in_attention;
    seconds += einsum.seconds;
    EXPECT_EQ(json["einsums"][&einsum - fused->einsums.data()]["in_attention"],
              einsum.in_attention);
    if (einsum.in_attention) {
      EXPECT_GT(einsum.seconds, 0);
    }
  }
  EXPECT_EQ(inside, 2 * 6);
  EXPECT_LT(seconds, fused->compute);
  const auto kernels = std::count_if(
      fused->timeline.begin(), fused->timeline.end(),
      [](const auto& entry) { return entry.name.rfind("attention ", 0) == 0; });
  EXPECT_EQ(kernels, 2 * 2);
}

TEST(Explain, ReportsWhyAttentionIsNotFused) {
  const auto sharded = Step().On("h200_x8", "model:4", "length:model");
  ASSERT_OK(sharded);
  ASSERT_EQ(sharded->attention.composed.size(), 2u);
  EXPECT_EQ(sharded->attention.fused, 0);
  EXPECT_EQ(sharded->attention.composed[1].module, "layer_1/attention");
  EXPECT_THAT(ExplainFullText(*sharded, 200),
              HasSubstr("attention is not fused: "
                        "layer_0..1/attention/dot_product/einsum ("));
  EXPECT_THAT(ExplainFullText(*sharded, 200),
              HasSubstr("): the layout shards length over model\n"));
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
      EXPECT_THAT(tensor.name, Not(HasSubstr("dot_product/einsum_grad")));
    }
    EXPECT_EQ(alive + e->memory.parts.unused, e->memory.arena) << layout;
    EXPECT_GE(e->memory.parts.unused, 0) << layout;
    EXPECT_LT(e->memory.parts.unused, e->memory.arena / 10) << layout;
    const bool has_row_sums =
        std::any_of(e->memory.alive.begin(), e->memory.alive.end(),
                    [](const ExplainedTensor& tensor) {
                      return tensor.type == "sums of attention";
                    });
    EXPECT_TRUE(has_row_sums) << layout;
  }
}

TEST(CheckBudget, NamesTheSameTensorsAsTheExplanation) {
  TransformerSizes sizes = kSizes;
  sizes.length = 512;
  const Step step(sizes);
  auto program = step.Lowered("", "");
  ASSERT_OK(program);
  PlanForMachine(Machine::Load("h100_nvlink_ib")->fusion(), *program);
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
    found = found || changed->attention.fused == 2;
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace mtf::testing
