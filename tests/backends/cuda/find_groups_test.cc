// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// Groups of rows and batches of maps in programs of layers.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/print_program.h"
#include "nn/layers/dense.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/softmax.h"
#include "nn/losses/cross_entropy.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/schedules.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/lowering/gpu_fusion.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::LowerText;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Dimension kBatch{"batch", 6}, kLength{"length", 4}, kModel{"d_model", 8},
    kVocab{"vocab", 12};

std::string Name(const Program& program, int index) {
  const Instruction& instruction = program.instructions[index];
  return absl::StrCat(OpcodeName(instruction.opcode), " ",
                      program.values[instruction.results[0]].name);
}

std::vector<std::string> Names(const Program& program,
                               const std::vector<int>& group) {
  std::vector<std::string> names;
  for (int index : group) names.push_back(Name(program, index));
  return names;
}

// The groups that `pass` writes for a GPU.
std::vector<FusedGroup> GroupsOf(const std::string& pass, Program program) {
  program.buffers = {};  // planned for single instructions
  EXPECT_OK(RunPass(pass, program, mtf::testing::GpuFusion()));
  return program.groups;
}

std::vector<std::vector<std::string>> RowGroups(
    const absl::StatusOr<Program>& program) {
  EXPECT_OK(program);
  std::vector<std::vector<std::string>> groups;
  if (!program.ok()) return groups;
  for (const FusedGroup& group : GroupsOf("fuse_rows", *program)) {
    groups.push_back(Names(*program, group.members));
  }
  return groups;
}

// The values that a group of rows stores.
std::vector<int> StoredBy(const FusedGroup& group, Program program) {
  program.groups = {group};
  const std::vector<bool> internal = FindInternalValues(program);
  std::vector<int> stored;
  for (const Instruction& instruction : program.instructions) {
    for (int operand : instruction.operands) {
      const bool is_member = std::any_of(
          group.members.begin(), group.members.end(), [&](int member) {
            return program.instructions[member].results[0] == operand;
          });
      if (is_member && !internal[operand] &&
          std::count(stored.begin(), stored.end(), operand) == 0 &&
          std::none_of(group.members.begin(), group.members.end(),
                       [&](int member) {
                         return &program.instructions[member] == &instruction;
                       })) {
        stored.push_back(operand);
      }
    }
  }
  return stored;
}

TEST(FuseRows, SoftmaxIsOneGroup) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kVocab});
  const Tensor y = nn::Softmax(x, kVocab);
  EXPECT_THAT(
      RowGroups(LowerText(graph, "", "", {.fetches = {y}})),
      ElementsAre(ElementsAre("reduce softmax/reduce_max", "map softmax/max",
                              "map softmax/exp", "reduce softmax/reduce_sum",
                              "map softmax/reciprocal", "map softmax/mul")));
}

TEST(FuseRows, ShardedRowsFormTheSameGroups) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kVocab});
  const Tensor y = nn::Softmax(x, kVocab);
  EXPECT_THAT(
      RowGroups(LowerText(graph, "data:2", "batch:data", {.fetches = {y}})),
      ElementsAre(SizeIs(6)));
}

TEST(FuseRows, ShardedColumnsEndAGroupAtTheCollective) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kVocab});
  const Tensor y = nn::Softmax(x, kVocab);
  EXPECT_THAT(
      RowGroups(LowerText(graph, "model:2", "vocab:model", {.fetches = {y}})),
      ElementsAre(ElementsAre("map softmax/max", "map softmax/exp",
                              "reduce softmax/reduce_sum")));
}

TEST(FuseRows, LayerNormIncludesTheResidualSum) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const Tensor y = Input(graph, "y", kFloat32, {kBatch, kModel});
  const Tensor z = nn::LayerNorm(x + y, kModel);
  const auto groups = RowGroups(LowerText(graph, "", "", {.fetches = {z}}));
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].front(), "map add");
  EXPECT_EQ(groups[0].back(), "map layer_norm/add_1");
}

TEST(FuseRows, AdjacentLayerNormAndGradientAreOneGroup) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const Tensor loss = ReduceSum(
      Square(nn::LayerNorm(x, kModel, {.scale = false, .bias = false})),
      Shape());
  const std::vector<Tensor> slopes = Gradients(loss, {x});
  const auto groups =
      RowGroups(LowerText(graph, "", "", {.fetches = {slopes[0]}}));
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].front(), "reduce layer_norm/reduce_sum");
  EXPECT_EQ(groups[0].back(), "map x_grad");
}

// The sum over positions is between the sums over the vocabulary and the
// gradient, which does not need it.
TEST(FuseRows, LossAndLogitGradientAreOneGroup) {
  Graph graph;
  const Tensor x = Input(graph, "x", kBFloat16, {kBatch, kVocab});
  const Tensor targets = Input(graph, "targets", kInt32, {kBatch});
  const Tensor loss = nn::SoftmaxCrossEntropy(x, kVocab, targets);
  const std::vector<Tensor> slopes = Gradients(loss, {x});
  const auto program = LowerText(graph, "", "", {.fetches = {loss, slopes[0]}});
  const auto groups = RowGroups(program);
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].front(), "map cross_entropy/cast");
  EXPECT_EQ(groups[0].back(), "map cross_entropy/cast_grad");
  std::vector<std::string> outputs;
  for (int value : StoredBy(GroupsOf("fuse_rows", *program)[0], *program)) {
    outputs.push_back(program->values[value].name);
  }
  // Two numbers per row for the loss, and the gradient.
  EXPECT_THAT(outputs,
              ElementsAre("cross_entropy/reduce_sum_1", "cross_entropy/max_1",
                          "cross_entropy/cast_grad"));
}

// The same for weighted positions: the sum of the weights is known before the
// logits, on several devices too.
TEST(FuseRows, WeightedLossAndLogitGradientAreOneGroup) {
  for (const char* mesh : {"", "data:2"}) {
    for (const Shape& of_weights :
         {Shape{kBatch, kLength}, Shape{kLength, kBatch}, Shape{kLength}}) {
      SCOPED_TRACE(absl::StrCat(mesh, " ", of_weights.ToString()));
      Graph graph;
      const Tensor x = Input(graph, "x", kBFloat16, {kBatch, kLength, kVocab});
      const Tensor targets = Input(graph, "targets", kInt32, {kBatch, kLength});
      const Tensor loss = nn::SoftmaxCrossEntropy(
          x, kVocab, targets,
          {.z_loss = 0.1,
           .weights = Input(graph, "weights", kInt32, of_weights)});
      const std::vector<Tensor> slopes = Gradients(loss, {x});
      const auto program =
          LowerText(graph, mesh, std::string(mesh).empty() ? "" : "batch:data",
                    {.fetches = {loss, slopes[0]}});
      ASSERT_OK(program);
      const std::vector<FusedGroup> groups = GroupsOf("fuse_rows", *program);
      ASSERT_THAT(groups, SizeIs(1)) << PrintProgram(*program);
      EXPECT_EQ(Name(*program, groups[0].members.back()),
                "map cross_entropy/cast_1_grad");
      // The gradient may be written in place. All other outputs are numbers
      // per row.
      int in_place = 0;
      for (int value : StoredBy(groups[0], *program)) {
        in_place += MayOverwrite(*program, groups[0], value);
        EXPECT_EQ(program->values[value].shape.Contains("vocab"),
                  MayOverwrite(*program, groups[0], value));
      }
      EXPECT_EQ(in_place, 1);
    }
  }
}

// The divisor of the gradient must be known before the first member.
TEST(FuseRows, ReaderOfASumOverPositionsIsNotAMember) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kVocab});
  const Tensor y = nn::Softmax(x, kVocab);
  const Tensor total = ReduceSum(y, Shape());
  const Tensor z = y / total;
  const auto groups = RowGroups(LowerText(graph, "", "", {.fetches = {z}}));
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].back(), "map softmax/mul");
}

TEST(FuseRows, ComputedScaleIsAMember) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const Tensor scale = Input(graph, "scale", kFloat32, {kModel});
  const Tensor norm = nn::LayerNorm(x, kModel, {.scale = false, .bias = false});
  const Tensor wide = Exp(scale);
  const Tensor z = norm * wide;
  // Two readers, otherwise it would join the product.
  const auto groups =
      RowGroups(LowerText(graph, "", "", {.fetches = {z, wide}}));
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_THAT(groups[0], ::testing::Contains("map exp"));
  EXPECT_EQ(groups[0].back(), "map mul");
}

TEST(FuseRows, UnrelatedInstructionsFormNoGroup) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const Tensor y = Input(graph, "y", kFloat32, {kBatch, kModel});
  const Tensor a = Exp(y), b = ReduceSum(x, {kBatch}), c = Sin(y);
  EXPECT_THAT(RowGroups(LowerText(graph, "", "", {.fetches = {a, b, c}})),
              IsEmpty());
}

// The gradients of scale and bias sum the rows that the gradient of x
// processes.
TEST(FuseRows, SumsOverRowsAreMembers) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const Tensor y = Input(graph, "y", kFloat32, {kBatch, kModel});
  const Tensor scale = Input(graph, "scale", kFloat32, {kModel});
  const Tensor bias = Input(graph, "bias", kFloat32, {kModel});
  const Tensor norm =
      nn::LayerNorm(x, kModel, {.scale = false, .bias = false}) * scale + bias;
  const Tensor loss = ReduceSum(norm * y, Shape());
  const std::vector<Tensor> slopes = Gradients(loss, {x, scale, bias});
  const auto program = LowerText(graph, "", "", {.fetches = slopes});
  const auto groups = RowGroups(program);
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].front(), "reduce layer_norm/reduce_sum");
  // No reduction or map runs by itself.
  int runs = 0;
  for (const Instruction& instruction : program->instructions) {
    runs += instruction.opcode == Opcode::kMap ||
            instruction.opcode == Opcode::kReduce;
  }
  EXPECT_EQ(static_cast<int>(groups[0].size()), runs)
      << absl::StrJoin(groups[0], "\n");
}

// Each sum takes registers for every column.
TEST(FuseRows, SumsOverRowsAreLimitedInNumberAndColumns) {
  for (int64_t columns : {8192, 8208}) {
    Graph graph;
    const Dimension wide{"wide", columns};
    const Tensor x = Input(graph, "x", kFloat32, {kBatch, wide});
    const Tensor y = nn::Softmax(x, wide);
    std::vector<Tensor> sums;
    for (int i = 1; i <= 6; ++i) {
      sums.push_back(ReduceSum(y * (0.5 + i), {wide}));
    }
    const auto groups = RowGroups(LowerText(graph, "", "", {.fetches = sums}));
    ASSERT_THAT(groups, SizeIs(1));
    int found = 0;
    for (const std::string& name : groups[0]) {
      found += absl::StartsWith(name, "reduce reduce_sum");
    }
    EXPECT_EQ(found, columns == 8192 ? 4 : 0) << columns;
  }
}

// A sum over all rows is only known after the group.
TEST(FuseRows, ReaderOfASumOverRowsIsNotAMember) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  const Tensor y = nn::Softmax(x, kModel);
  const Tensor z = y * ReduceSum(y, {kModel});
  const auto groups = RowGroups(LowerText(graph, "", "", {.fetches = {z}}));
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].back(), "reduce reduce_sum");
}

TEST(FuseRows, SingleReductionIsNotAGroup) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kVocab});
  const Tensor y = ReduceSum(x, {kBatch});
  EXPECT_THAT(RowGroups(LowerText(graph, "", "", {.fetches = {y}})), IsEmpty());
}

TEST(FuseRows, OuterDimensionsAreNotColumns) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kVocab});
  const Tensor y = ReduceSum(x, {kVocab});
  const Tensor z = Exp(x) * y;
  EXPECT_THAT(RowGroups(LowerText(graph, "", "", {.fetches = {z}})), IsEmpty());
}

// Each section in brackets.
std::vector<std::string> Batches(const absl::StatusOr<Program>& program) {
  EXPECT_OK(program);
  std::vector<std::string> texts;
  if (!program.ok()) return texts;
  for (const FusedGroup& batch : GroupsOf("batch_maps", *program)) {
    std::string text;
    for (const std::vector<int>& section : batch.Find<MapGroup>()->sections) {
      absl::StrAppend(&text, "[", absl::StrJoin(Names(*program, section), ", "),
                      "]");
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(BatchMaps, OptimizerIsOneBatchWithASectionPerParameter) {
  const std::vector<nn::AdamWOptions> all = {
      {},
      {.learning_rate = nn::Schedule(1e-3) * nn::LinearWarmup(100),
       .weight_decay = 0.1}};
  for (const nn::AdamWOptions& options : all) {
    Graph graph;
    const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
    const Tensor y = nn::Dense(x, {kModel}, {kVocab});
    const Tensor loss = ReduceSum(Square(y), Shape());
    const Tensor step = nn::AdamW(options).Minimize(loss);
    const auto program =
        LowerText(graph, "", "", {.fetches = {loss}, .updates = {step}});
    ASSERT_OK(program);
    const std::vector<FusedGroup> batches = GroupsOf("batch_maps", *program);
    ASSERT_FALSE(batches.empty());
    // Moments and the parameter, of the kernel and of the bias.
    EXPECT_THAT(batches.back().Find<MapGroup>()->sections,
                ElementsAre(SizeIs(3), SizeIs(3)))
        << absl::StrJoin(Batches(program), "\n");
  }
}

TEST(BatchMaps, SumBetweenTwoMapsEndsABatch) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch});
  const Tensor a = Exp(x), b = Sin(x);
  const Tensor sum = ReduceSum(a, Shape());
  const Tensor c = Cos(x) * sum, d = Exp(b) * sum;
  EXPECT_THAT(Batches(LowerText(graph, "", "", {.fetches = {a, b, c, d}})),
              ElementsAre("[map exp, map sin]", "[map mul, map mul_1]"));
}

TEST(BatchMaps, BroadcastOperandsAreNotBatched) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch});
  const Tensor y = Input(graph, "y", kFloat32, {kBatch, kModel});
  const Tensor a = Exp(x);
  const Tensor b = Sin(y) + Cos(a);
  EXPECT_THAT(Batches(LowerText(graph, "", "", {.fetches = {a, b}})),
              ElementsAre("[map exp, map cos]"));
}

}  // namespace
}  // namespace mtf::cuda
