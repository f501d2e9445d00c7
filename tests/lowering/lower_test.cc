// SPDX-License-Identifier: Apache-2.0
//
// The complete lowering: a pure function of graph, rules and mesh, whose work
// grows with the operations and not with the devices.
#include "lowering/lower.h"

#include <string>
#include <vector>

#include "lowering/parse_program.h"
#include "lowering/program/print_program.h"
#include "ops/reduce.h"
#include "planning/explain/explain.h"
#include "planning/machine/machine.h"
#include "tests/lowering/allocations.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"
#include "tests/repeats.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;

const std::vector<std::string> kPasses = {"delay_all_reduces",
                                          "narrow_reshards",
                                          "plan_reshapes",
                                          "expand_reshards",
                                          "hoist_slices",
                                          "fuse_reduce_scatters",
                                          "remove_trivial_collectives",
                                          "regather_parameters",
                                          "bucket_all_reduces",
                                          "shard_shapes",
                                          "fuse_maps",
                                          "rematerialize_maps",
                                          "plan_einsums",
                                          "overlap_collectives",
                                          "place_host_copies",
                                          "fuse_convolutions",
                                          "fuse_pools",
                                          "fuse_epilogues",
                                          "fuse_rows",
                                          "fuse_bias_gradients",
                                          "batch_maps",
                                          "plan_buffers"};

// A model whose sizes many meshes divide.
TransformerSizes EvenSizes(int layers = 2) {
  TransformerSizes sizes;
  sizes.layers = layers;
  sizes.batch = 64;
  sizes.length = 64;
  sizes.d_model = 64;
  sizes.heads = 64;
  sizes.d_kv = 1;
  sizes.d_ff = 256;
  sizes.vocab = 128;
  return sizes;
}

TEST(Lower, RunsThePassesInOrder) {
  EXPECT_EQ(PassNames(), kPasses);
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  std::vector<std::string> passes;
  LowerOptions options;
  options.after_pass = [&](absl::string_view pass, const Program&) {
    passes.push_back(std::string(pass));
  };
  ASSERT_OK(LowerPreset(graph, "data", 2, {.fetches = {model.loss}}, options));
  std::vector<std::string> wanted = kPasses;
  wanted.insert(wanted.begin(), "emit_program");
  EXPECT_EQ(passes, wanted);
}

TEST(Lower, StopsAfterTheLastPass) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  std::vector<std::string> passes;
  LowerOptions options;
  options.after_pass = [&](absl::string_view pass, const Program&) {
    passes.push_back(std::string(pass));
  };
  options.last_pass = "expand_reshards";
  ASSERT_OK(LowerPreset(graph, "data", 2, {.fetches = {model.loss}}, options));
  EXPECT_THAT(passes, ElementsAre("emit_program", "delay_all_reduces",
                                  "narrow_reshards", "plan_reshapes",
                                  "expand_reshards"));
  passes.clear();
  options.last_pass = "emit_program";
  ASSERT_OK(LowerPreset(graph, "data", 2, {.fetches = {model.loss}}, options));
  EXPECT_THAT(passes, ElementsAre("emit_program"));
}

TEST(Lower, MisspeltLastPassIsAnError) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  EXPECT_THAT(
      LowerPreset(graph, "data", 2, {.fetches = {model.loss}},
                  {.last_pass = "shard_shape"}),
      StatusIs(
          absl::StatusCode::kNotFound,
          "no pass \"shard_shape\"; did you mean \"shard_shapes\"?\n"
          "  passes   delay_all_reduces, narrow_reshards, plan_reshapes, "
          "expand_reshards, hoist_slices, fuse_reduce_scatters, "
          "remove_trivial_collectives, "
          "regather_parameters, bucket_all_reduces, shard_shapes, fuse_maps, "
          "rematerialize_maps, plan_einsums, overlap_collectives, "
          "place_host_copies, "
          "fuse_convolutions, fuse_pools, fuse_epilogues, fuse_rows, "
          "fuse_bias_gradients, batch_maps, plan_buffers"));
}

// Running the passes one by one over text gives what Lower gives. The text
// contains the rules, which decide which parameters are gathered again.
TEST(Lower, EveryStageResumesFromItsText) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  for (const std::string& preset : LayoutRules::PresetNames()) {
    std::string before;
    LowerOptions options;
    options.after_pass = [&](absl::string_view pass, const Program& program) {
      const std::string after =
          PrintProgram(program, ProgramDetail::kWithOrigins);
      if (!before.empty()) {
        absl::StatusOr<Program> parsed = ParseProgram(before);
        ASSERT_OK(parsed);
        ASSERT_OK(RunPass(pass, *parsed));
        EXPECT_EQ(PrintProgram(*parsed, ProgramDetail::kWithOrigins), after)
            << preset << " " << pass;
      }
      before = after;
    };
    ASSERT_OK(LowerPreset(graph, preset, 8,
                          {.fetches = {model.loss}, .updates = {model.step}},
                          options));
  }
}

TEST(Lower, IsAPureFunction) {
  const auto machine = Machine::Load("h100_nvlink_ib");
  ASSERT_OK(machine);
  for (const std::string& preset : LayoutRules::PresetNames()) {
    std::string first;
    for (int i = 0; i < testing::Repeats(20, 3); ++i) {
      // A new graph each time: nothing depends on its address.
      Graph graph;
      const Transformer model = BuildTransformer(graph);
      const auto program = LowerPreset(
          graph, preset, 8, {.fetches = {model.loss}, .updates = {model.step}});
      ASSERT_OK(program);
      const std::string text = PrintProgram(*program) +
                               ExplainJson(ExplainProgram(*program, *machine));
      if (i == 0) first = text;
      ASSERT_EQ(text, first) << preset;
    }
  }
}

struct Work {
  size_t instructions, values;
  int64_t calls, allocations;
};

Work WorkOn(const std::string& preset, const std::string& mesh_text,
            int layers = 2) {
  Graph graph;
  const Transformer model = BuildTransformer(graph, EvenSizes(layers));
  const LayoutBinding binding =
      *BindLayout(graph, *Mesh::Parse(mesh_text), *LayoutRules::Preset(preset));
  const int64_t before = Allocations();
  const auto program =
      Lower(graph, binding, {.fetches = {model.loss}, .updates = {model.step}});
  const int64_t after = Allocations();
  EXPECT_OK(program);
  Work work{program->instructions.size(), program->values.size(), 0,
            after - before};
  for (const auto& [key, count] : CountCollectives(*program)) {
    work.calls += count.first;
  }
  return work;
}

TEST(Lower, WorkDoesNotGrowWithTheDevices) {
  for (const std::string& preset : LayoutRules::PresetNames()) {
    const bool third = preset == "three_axes";
    const Work small =
        WorkOn(preset, third ? "data:2,sequence:2,model:2" : "data:2,model:4");
    const Work large = WorkOn(
        preset, third ? "data:16,sequence:16,model:16" : "data:64,model:64");
    EXPECT_EQ(small.instructions, large.instructions) << preset;
    EXPECT_EQ(small.values, large.values) << preset;
    EXPECT_EQ(small.calls, large.calls) << preset;
    // Other shard sizes lead to other einsum plans, so the counts differ
    // slightly; anything per device would be 512 times as much.
    EXPECT_LT(large.allocations, small.allocations * 5 / 4 + 1) << preset;
  }
}

TEST(Lower, WorkGrowsLinearlyWithTheLayers) {
  const Work one = WorkOn("data_model", "data:2,model:4", 2),
             two = WorkOn("data_model", "data:2,model:4", 4),
             four = WorkOn("data_model", "data:2,model:4", 8);
  EXPECT_EQ(four.instructions - two.instructions,
            2 * (two.instructions - one.instructions));
  // Tables double occasionally, so the counts are not exactly linear.
  EXPECT_LE(four.allocations - two.allocations,
            (two.allocations - one.allocations) * 21 / 10);
}

TEST(Lower, TensorFetchedTwiceHasOneOutput) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {{"batch", 8}});
  const Tensor sum = ReduceSum(x, {});
  const auto program =
      LowerText(graph, "data:2", "batch:data", {.fetches = {sum, x, sum}});
  ASSERT_OK(program);
  int outputs = 0;
  for (const Instruction& instruction : program->instructions) {
    outputs += instruction.opcode == Opcode::kOutput;
  }
  EXPECT_EQ(outputs, 2);
}

// Users add up losses in loops. Every other term is an unreduced sum.
TEST(Lower, LongChainOfSumsIsReducedOnce) {
  constexpr int kTerms = 4000;
  Graph graph;
  const Dimension batch{"batch", 8}, hidden{"hidden", 16};
  const Tensor x = Input(graph, "x", kFloat32, {batch, hidden});
  Tensor sum = ReduceMean(x, {batch});
  for (int i = 1; i < kTerms; ++i) {
    sum = sum + (i % 2 == 0
                     ? ReduceMean(x, {batch})
                     : Input(graph, absl::StrCat("y", i), kFloat32, {batch}));
  }
  const auto program =
      LowerText(graph, "model:4", "hidden:model", {.fetches = {sum}});
  EXPECT_EQ(Costs(program), "all_reduce model 1x 48\n");
  ASSERT_OK(program);
  EXPECT_LT(program->values.size(), 6u * kTerms);
}

}  // namespace
}  // namespace mtf::testing
