// SPDX-License-Identifier: Apache-2.0
//
// Programs under layouts with sections [in ...].
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/print_attributes.h"
#include "lowering/program/print_program.h"
#include "nn/optimizers/adam.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/shift.h"
#include "ops/variable.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Dimension kBatch{"batch", 4}, kLength{"length", 8}, kModel{"d_model", 6},
    kHidden{"d_ff", 10};

// One layer in the scope "layer", between norms outside of it.
struct Layer {
  Graph graph;
  Tensor x, loss, step;

  Layer() {
    x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
    const Tensor scale =
        Variable(graph, "scale", Ones(graph, kFloat32, {kModel}));
    Tensor h = x * scale;
    {
      const Scope scope(graph, "layer");
      const Tensor in =
          Variable(graph, "in", Ones(graph, kFloat32, {kModel, kHidden}));
      const Tensor out =
          Variable(graph, "out", Ones(graph, kFloat32, {kHidden, kModel}));
      const Tensor twice = Einsum({h, in}, {kBatch, kLength, kHidden}) +
                           Einsum({h, in}, {kBatch, kLength, kHidden});
      h = Einsum({Relu(twice), out}, {kBatch, kLength, kModel});
    }
    loss = ReduceMean(Square(x + h), {});
    step = nn::Adam({.learning_rate = 0.1}).Minimize(loss);
  }
};

// The lines of the collectives before memory is planned.
std::vector<std::string> CollectivesOf(const Program& program) {
  std::vector<std::string> kinds;
  for (const Instruction& instruction : program.instructions) {
    if (!IsCollective(instruction.opcode)) continue;
    kinds.emplace_back(OpcodeName(instruction.opcode));
  }
  return kinds;
}

constexpr char kSequence[] = "length:x, d_ff:x, [in layer] length:replicated";

TEST(RulesForScopes, ReshardWhatCrossesAndNothingElse) {
  Layer layer;
  const auto program =
      LowerText(layer.graph, "x:2", kSequence, {.fetches = {layer.loss}});
  ASSERT_OK(program);
  // Sequence parallelism: gathered before the layer, reduced after it, and the
  // loss.
  EXPECT_THAT(CollectivesOf(*program),
              ElementsAre("all_gather", "reduce_scatter", "all_reduce"));
}

// The gradients of both readers in the layer are added before they are reduced.
TEST(RulesForScopes, ReduceTheSumOfGradientsOnce) {
  Layer layer;
  const Tensor dx = Gradients(layer.loss, {layer.x})[0];
  const auto program =
      LowerText(layer.graph, "x:2", kSequence, {.fetches = {dx}});
  ASSERT_OK(program);
  // The last all_gather is that of the fetch.
  EXPECT_THAT(CollectivesOf(*program),
              ElementsAre("all_gather", "reduce_scatter", "all_gather",
                          "reduce_scatter", "all_gather"))
      << PrintProgram(*program);
}

// The layouts of the variables, by name.
std::string LayoutOf(const Program& program, absl::string_view name) {
  for (const ProgramVariable& variable : program.variables) {
    if (variable.name == name) {
      return internal::DimensionsText(program, variable.shape, variable.layout,
                                      {});
    }
  }
  return "";
}

TEST(RulesForScopes, ParametersAndTheirStateFollowTheirScope) {
  Layer layer;
  const auto program =
      LowerText(layer.graph, "x:2", "[in layer] d_ff:x, d_model:replicated",
                {.fetches = {layer.loss}, .updates = {layer.step}});
  ASSERT_OK(program);
  for (const char* name : {"layer/in", "adam/layer/in/m", "adam/layer/in/v"}) {
    EXPECT_EQ(LayoutOf(*program, name), "[d_model:6, d_ff:10/x]") << name;
  }
  EXPECT_EQ(LayoutOf(*program, "scale"), "[d_model:6]");
  // The update needs no communication: gradients have the layout of their
  // parameter. All collectives are those of the layer.
  for (const Instruction& instruction : program->instructions) {
    if (!IsCollective(instruction.opcode)) continue;
    EXPECT_THAT(program->origins[instruction.origin].operation,
                Not(HasSubstr("adam")));
  }
}

TEST(RulesForScopes, TheSectionOfParametersComesFirst) {
  Layer layer;
  const auto program =
      LowerText(layer.graph, "x:2,y:2",
                "[in layer] d_ff:x, [parameters] d_ff:y, [optimizer] d_ff:x+y",
                {.fetches = {layer.loss}, .updates = {layer.step}});
  ASSERT_OK(program);
  EXPECT_EQ(LayoutOf(*program, "layer/in"), "[d_model:6, d_ff:10/y]");
  EXPECT_EQ(LayoutOf(*program, "adam/layer/in/m"), "[d_model:6, d_ff:10/x+y]");
}

TEST(RulesForScopes, ARuleWithTheSameAxesChangesNothing) {
  Layer layer;
  const Targets targets = {.fetches = {layer.loss}, .updates = {layer.step}};
  const auto plain = LowerText(layer.graph, "x:2", "batch:x", targets);
  const auto scoped =
      LowerText(layer.graph, "x:2", "batch:x, [in layer] batch:x", targets);
  ASSERT_OK(plain);
  ASSERT_OK(scoped);
  EXPECT_EQ(PrintProgram(*plain), PrintProgram(*scoped));
}

TEST(RulesForScopes, AConflictNamesTheSectionAndTheScope) {
  Layer layer;
  const auto program =
      LowerText(layer.graph, "x:2", "length:x, [in layer] d_ff:x",
                {.fetches = {layer.loss}});
  EXPECT_THAT(
      program,
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("dimensions \"length\" and \"d_ff\" of one "
                               "operation are both sharded over mesh axis "
                               "\"x\" (layer/einsum"),
                     HasSubstr("\n  rule     [in layer] d_ff:x"),
                     HasSubstr("or replicate one of them here, in a section "
                               "[in layer] of the layout"))));
}

// A reshape keeps the layout of its operand, but not that of another module.
TEST(RulesForScopes, AReshapeFollowsTheRulesOfItsScope) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kLength, kModel});
  Tensor y;
  {
    const Scope scope(graph, "layer");
    y = Rename(x, "length", "memory") + x.dim("length").size;
    y = ReduceSum(Einsum({y, x}, {{"memory", 8}, kLength}), {kLength});
  }
  const auto program = LowerText(
      graph, "x:2", "length:x, [in layer] length:replicated", {.fetches = {y}});
  ASSERT_OK(program);
  EXPECT_THAT(CollectivesOf(*program), ElementsAre("all_gather"))
      << PrintProgram(*program);
}

// So does a shift, which is not gathered again by each reader.
TEST(RulesForScopes, AShiftFollowsTheRulesOfItsScope) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kLength, kModel});
  Tensor y;
  {
    const Scope scope(graph, "layer");
    y = Shift(x, "length", 1, false) + Shift(x, "length", 2, false);
  }
  const auto program = LowerText(
      graph, "x:2", "length:x, [in layer] length:replicated", {.fetches = {y}});
  ASSERT_OK(program);
  EXPECT_THAT(CollectivesOf(*program), ElementsAre("all_gather"))
      << PrintProgram(*program);
}

TEST(RulesForScopes, AMisspeltScopeIsNotedInTheConflictThatFollows) {
  Layer layer;
  const auto program = LowerText(
      layer.graph, "x:2", "length:x, d_ff:x, [in **/layr] length:replicated",
      {.fetches = {layer.loss}});
  EXPECT_THAT(program,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\n  note     section [in **/layr]")));
  EXPECT_THAT(program, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("the nearest scope is \"layer\"")));
}

TEST(RulesForScopes, AConflictOfStoredParametersNamesTheirSection) {
  Layer layer;
  const auto program =
      LowerText(layer.graph, "x:2", "[in layer] d_ff:x, [parameters] d_model:x",
                {.fetches = {layer.loss}});
  EXPECT_THAT(program,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("or replicate one of them in the section "
                                 "[parameters] of the layout")));
}

// A rule that no scope matches pads nothing.
TEST(RulesForScopes, ARuleWithoutEffectChangesNoExtent) {
  Layer layer;
  const Targets targets = {.fetches = {layer.loss}};
  const auto plain = LowerText(layer.graph, "x:2,y:3", "length:x", targets);
  const auto scoped = LowerText(layer.graph, "x:2,y:3",
                                "length:x, [in nothing] batch:y", targets);
  ASSERT_OK(plain);
  ASSERT_OK(scoped);
  EXPECT_EQ(PrintProgram(*plain), PrintProgram(*scoped));
}

TEST(RulesForScopes, AGraphThatGrowsAfterItsBindingIsAnError) {
  Layer layer;
  const LayoutRules rules = *LayoutRules::Parse("[in layer] d_ff:x", "");
  const auto binding = BindLayout(layer.graph, *Mesh::Parse("x:2"), rules);
  ASSERT_OK(binding);
  Tensor more;
  {
    const Scope scope(layer.graph, "more");
    more = Square(layer.x);
  }
  EXPECT_THAT(Lower(layer.graph, *binding, {.fetches = {more}}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("scope \"more\" was opened after the layout "
                                 "was bound")));
}

}  // namespace
}  // namespace mtf::testing
