// SPDX-License-Identifier: Apache-2.0
//
// The pass on whole training steps: what overlaps, the memory it takes, and
// that the program changes only in its order.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lowering/passes/overlap_collectives.h"
#include "lowering/program/count_costs.h"
#include "planning/cost/estimate_time.h"
#include "planning/machine/machine.h"
#include "tests/lowering/gpt_layers.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

constexpr char kPass[] = "overlap_collectives";

// A training step of GPT-2 124M, before and after the pass.
struct Lowered {
  Program before, after;
};
Lowered LoweredGpt(absl::string_view mesh, absl::string_view layout,
                   const GptSizes& sizes) {
  Graph graph;
  const Tensor step = BuildGpt(graph, sizes).step;
  Lowered lowered;
  const auto made = LowerText(graph, mesh, layout, {.updates = {step}},
                              {.last_pass = "plan_einsums"});
  EXPECT_OK(made);
  lowered.before = lowered.after = *made;
  EXPECT_OK(RunPass(kPass, lowered.after));
  for (Program* program : {&lowered.before, &lowered.after}) {
    EXPECT_OK(RunPass("plan_buffers", *program));
  }
  return lowered;
}
GptSizes Gpt2(int layers) {
  return {.layers = layers,
          .batch = 64,
          .length = 1024,
          .d_model = 768,
          .heads = 12,
          .vocab = 50257,
          .biases = true,
          .parameters = kFloat32};
}

double Exposed(const Program& program, const StepEstimate& step,
               CollectiveKind kind) {
  double seconds = 0;
  for (const TimedInstruction& timed : step.timeline) {
    if (!timed.is_collective) continue;
    const Instruction& instruction = program.instructions[timed.instruction];
    if (CollectiveOf(instruction.opcode) == kind) seconds += timed.exposed;
  }
  return seconds;
}

// The peak of the bytes of results of `opcode` that are alive.
int64_t MostAlive(const Program& program, Opcode opcode) {
  std::vector<int64_t> change(program.instructions.size() + 1, 0);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& made = program.instructions[i];
    if (made.opcode != opcode) continue;
    size_t last = i;
    for (size_t j = i; j < program.instructions.size(); ++j) {
      for (int operand : program.instructions[j].operands) {
        if (operand == made.results[0]) last = j;
      }
    }
    change[i] += program.values[made.results[0]].local_bytes();
    change[last + 1 - (last + 1 == change.size())] -=
        program.values[made.results[0]].local_bytes();
  }
  int64_t now = 0, most = 0;
  for (int64_t bytes : change) most = std::max(most, now += bytes);
  return most;
}

TEST(OverlapCollectives, Zero3GathersOverlapWithinBoundedMemory) {
  const Lowered lowered =
      LoweredGpt("data:8", gpt_layouts::kZero3, Gpt2(/*layers=*/6));
  const auto machine = Machine::Load("h100_nvlink_ib");
  ASSERT_OK(machine);
  const StepEstimate before = EstimateStep(lowered.before, *machine),
                     after = EstimateStep(lowered.after, *machine);
  const auto gathers = CollectiveKind::kAllGather;
  EXPECT_NEAR(before.collectives, after.collectives, 1e-9);
  EXPECT_NEAR(before.compute, after.compute, 1e-9);
  EXPECT_LT(Exposed(lowered.after, after, gathers),
            0.2 * Exposed(lowered.before, before, gathers));
  EXPECT_LT(after.exposed, 0.4 * before.exposed);
  EXPECT_LT(after.seconds, before.seconds);
  EXPECT_EQ(CountCollectives(lowered.before), CountCollectives(lowered.after));
  // Twice the bytes gathered at once, and the operands of two calls.
  int64_t held[2] = {0, 0};
  for (const Instruction& instruction : lowered.after.instructions) {
    if (!IsAsynchronous(instruction) ||
        instruction.opcode != Opcode::kReduceScatter) {
      continue;
    }
    int64_t bytes = 0;
    for (int operand : instruction.operands) {
      bytes += lowered.after.values[operand].local_bytes();
    }
    held[0] = std::max(held[0], std::min(bytes, held[1]));
    held[1] = std::max(held[1], bytes);
  }
  const int64_t most = lowered.before.buffers.arena_bytes +
                       MostAlive(lowered.before, Opcode::kAllGather) + held[0] +
                       held[1];
  EXPECT_LE(lowered.after.buffers.arena_bytes, most + most / 64);
}

// Without marks the estimate reports no overlap.
TEST(OverlapCollectives, NothingOverlapsWithoutThePass) {
  const Lowered lowered =
      LoweredGpt("data:8", gpt_layouts::kZero3, Gpt2(/*layers=*/2));
  const StepEstimate step =
      EstimateStep(lowered.before, *Machine::Load("h100_nvlink_ib"));
  EXPECT_NEAR(step.exposed, step.collectives, 1e-9);
}

struct LayoutCase {
  const char* name;
  const char* mesh;
  const char* layout;
  friend std::ostream& operator<<(std::ostream& out, const LayoutCase& c) {
    return out << c.name;
  }
};

class OverlapOfLayouts : public ::testing::TestWithParam<LayoutCase> {};

// Every program is verified with its buffers; no collective is lost or
// repeated, and the text form has it all.
TEST_P(OverlapOfLayouts, IsAPermutationOfTheProgram) {
  GptSizes sizes = Gpt2(/*layers=*/3);
  if (std::string(GetParam().name) == "experts") sizes.experts = 8;
  const Lowered lowered = LoweredGpt(GetParam().mesh, GetParam().layout, sizes);
  EXPECT_EQ(CountCollectives(lowered.before), CountCollectives(lowered.after));
  const auto lines = [](const Program& program) {
    std::vector<std::string> lines;
    for (Instruction instruction : program.instructions) {
      if (instruction.opcode == Opcode::kWait) continue;
      if (auto* collective = instruction.Find<CollectiveAttributes>()) {
        collective->asynchronous = false;
      };
      for (int result : instruction.results) {
        lines.push_back(program.values[result].name);
      }
      lines.push_back(OpcodeName(instruction.opcode).data());
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  EXPECT_EQ(lines(lowered.before), lines(lowered.after));
  const std::string text = PrintProgram(lowered.after);
  const auto parsed = ParseProgram(text);
  ASSERT_OK(parsed);
  EXPECT_EQ(PrintProgram(*parsed), text);
  const bool any = text.find(" asynchronous\n") != std::string::npos;
  EXPECT_TRUE(any) << "nothing overlaps";
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, OverlapOfLayouts,
    ::testing::Values(
        LayoutCase{"data", "data:8", gpt_layouts::kData},
        LayoutCase{"zero1", "data:8", gpt_layouts::kZero1},
        LayoutCase{"zero3", "data:8", gpt_layouts::kZero3},
        LayoutCase{"keep_gathered", "data:8", gpt_layouts::kZero3KeepGathered},
        LayoutCase{"megatron", "model:4", gpt_layouts::kMegatron},
        LayoutCase{"sequence", "model:4", gpt_layouts::kSequence},
        LayoutCase{"two_axes", "data:2,model:4",
                   gpt_layouts::kTwoAxesOfWeights},
        LayoutCase{"experts", "data:8", gpt_layouts::kExperts},
        LayoutCase{"all_to_all", "model:4", gpt_layouts::kAllToAll}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mtf::testing
