// SPDX-License-Identifier: Apache-2.0
//
// The collectives of a training step of a transformer under each preset. A
// change of a number here is an intended performance change.
#include <string>
#include <vector>

#include "lowering/program/print_program.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/small_transformer.h"

namespace mtf::testing {
namespace {

using ::testing::Each;

// The collectives of a training step of `layers` layers under `preset`.
std::string StepCosts(absl::string_view preset, int64_t ranks, int layers) {
  Graph graph;
  TransformerSizes sizes;
  sizes.layers = layers;
  const Transformer model = BuildTransformer(graph, sizes);
  return Costs(LowerPreset(graph, preset, ranks,
                           {.fetches = {model.loss}, .updates = {model.step}}));
}

TEST(TrainingStep, OneDeviceSendsNothing) {
  EXPECT_EQ(StepCosts("single", 1, 2), "");
  EXPECT_EQ(StepCosts("single", 4, 2), "");
}

// Four all_reduces per block, one each for the embedding and the gradient of
// the logits, and two in the loss: its maximum, then both sums together.
TEST(TrainingStep, MegatronNeedsFourAllReducesPerBlock) {
  EXPECT_EQ(StepCosts("megatron", 4, 1), "all_reduce model 8x 39168\n");
  EXPECT_EQ(StepCosts("megatron", 4, 2), "all_reduce model 12x 63744\n");
  EXPECT_EQ(StepCosts("megatron", 4, 4), "all_reduce model 20x 112896\n");
}

TEST(TrainingStep, DataParallelGradientsAndTheLossAreOneCall) {
  EXPECT_EQ(StepCosts("data", 4, 1), "all_reduce data 1x 10950\n");
  EXPECT_EQ(StepCosts("data", 4, 2), "all_reduce data 1x 15750\n");
  EXPECT_EQ(StepCosts("data", 4, 4), "all_reduce data 1x 25350\n");
}

TEST(TrainingStep, DataModelCombinesBoth) {
  EXPECT_EQ(StepCosts("data_model", 4, 2),
            "all_reduce data 1x 5380\nall_reduce model 12x 21248\n");
}

// Stages 1 and 2: gradients are scattered and updated parameters gathered, each
// as often and as large as under zero3.
TEST(TrainingStep, Zero2ScattersGradientsAndGathersParameters) {
  EXPECT_EQ(StepCosts("zero2", 4, 2),
            "all_reduce data 1x 6\n"
            "all_gather data 22x 7872\n"
            "reduce_scatter data 1x 7872\n");
}

// Parameters are gathered for use, gradients scattered; the all_reduce is that
// of the loss, one float. For the backward pass, six matrices and two scales of
// the first layer are gathered again, and those of the second layer that are
// not read again soon: four matrices and a scale.
TEST(TrainingStep, Zero3GathersParametersAndScattersGradients) {
  const int64_t regathered = (4 * 64 + 2 * 256 + 2 * 8) + (4 * 64 + 8);
  EXPECT_EQ(StepCosts("zero3", 4, 2),
            absl::StrCat("all_reduce data 1x 6\n"
                         "all_gather data 35x ",
                         7872 + regathered * 4 * 3 / 4,
                         "\nreduce_scatter data 1x 7872\n"));
}

TEST(TrainingStep, NoParameterIsAllReducedUnderZero3) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const auto program = LowerPreset(
      graph, "zero3", 4, {.fetches = {model.loss}, .updates = {model.step}});
  ASSERT_OK(program);
  for (const Instruction& instruction : program->instructions) {
    if (instruction.opcode != Opcode::kAllReduce) continue;
    for (int operand : instruction.operands) {
      EXPECT_EQ(program->values[operand].shape.rank(), 0)
          << PrintInstruction(*program, instruction);
    }
  }
  // Every parameter and its optimizer state is stored in shards.
  int replicated = 0;
  for (const ProgramVariable& variable : program->variables) {
    if (variable.layout.Sharded() == 0) ++replicated;
  }
  EXPECT_EQ(replicated, 1) << "only the number of the step is replicated";
}

TEST(TrainingStep, SequenceGathersKeysAndValuesOnly) {
  EXPECT_EQ(StepCosts("sequence", 4, 2),
            "all_reduce data 1x 1024\n"
            "all_reduce model 2x 8192\n"
            "all_reduce data+model 1x 14214\n"
            "all_gather model 2x 2048\n");
}

TEST(TrainingStep, ThreeAxesCombineAllThree) {
  EXPECT_EQ(StepCosts("three_axes", 8, 2),
            "all_reduce data 1x 512\n"
            "all_reduce sequence 2x 4096\n"
            "all_reduce data+sequence 1x 7302\n"
            "all_reduce model 12x 12672\n"
            "all_gather sequence 2x 2048\n");
}

// The layouts of the values between blocks.
std::vector<std::string> ResidualLayouts(absl::string_view preset,
                                         int64_t ranks) {
  Graph graph;
  const Transformer model = BuildTransformer(graph);
  const auto program = LowerPreset(
      graph, preset, ranks, {.fetches = {model.loss}, .updates = {model.step}});
  std::vector<std::string> layouts;
  if (!program.ok()) return {ErrorText(program.status())};
  for (const Tensor& residual : model.residuals) {
    for (const ProgramValue& value : program->values) {
      if (value.name != residual.name()) continue;
      layouts.push_back(LayoutText(program->mesh, value.shape, value.layout));
    }
  }
  return layouts;
}

TEST(TrainingStep, SequenceShardsResidualsOverLength) {
  const std::vector<std::string> layouts = ResidualLayouts("sequence", 4);
  EXPECT_EQ(layouts.size(), 2u);
  EXPECT_THAT(layouts, Each("batch:8/data, length:16/model, d_model:8"));
}

TEST(TrainingStep, ThreeAxesShardResidualsOverTwoAxes) {
  const std::vector<std::string> layouts = ResidualLayouts("three_axes", 8);
  EXPECT_EQ(layouts.size(), 2u);
  EXPECT_THAT(layouts, Each("batch:8/data, length:16/sequence, d_model:8"));
}

TEST(TrainingStep, MegatronReplicatesResiduals) {
  const std::vector<std::string> layouts = ResidualLayouts("megatron", 4);
  EXPECT_EQ(layouts.size(), 2u);
  EXPECT_THAT(layouts, Each("batch:8, length:16, d_model:8"));
}

}  // namespace
}  // namespace mtf::testing
