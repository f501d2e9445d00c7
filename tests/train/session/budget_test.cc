// SPDX-License-Identifier: Apache-2.0
//
// A session rejects programs that exceed the budget of its layout.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/constant.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Dimension kBatch{"batch", 8}, kIo{"io", 4}, kHidden{"hidden", 6};

// A parameter that is stored sharded and gathered for use.
struct Model {
  explicit Model(Graph& graph) {
    x = Input(graph, "x", kFloat32, {kBatch, kIo});
    Scope scope(graph, "layer_0");
    w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo, kHidden}));
    sum = ReduceSum(Einsum({x, w}, {kBatch, kHidden}), {});
    update = Assign(w, w + 1.0);
  }
  Tensor x, w, sum, update;
};

absl::Status RunStep(absl::string_view budget) {
  Graph graph;
  const Model model(graph);
  MTF_ASSIGN_OR_RETURN(
      const std::unique_ptr<Session> session,
      Session::Create(
          graph, "data:2",
          absl::StrCat("batch:data [parameters] io:data [budget] ", budget)));
  MTF_RETURN_IF_ERROR(session->Initialize());
  // Reading the parameter is not a step, so lines on collectives do not apply.
  MTF_RETURN_IF_ERROR(session->ReadVariable("layer_0/w").status());
  return session
      ->Run({.feeds = {{"x", HostTensor(model.x.shape(), kFloat32)}},
             .fetches = {model.sum},
             .updates = {model.update}})
      .status();
}

TEST(SessionBudget, AStepWithinTheBudgetRuns) {
  EXPECT_OK(
      RunStep("at most 1 MiB over data, no all_to_all, memory at most "
              "1 MiB"));
}

TEST(SessionBudget, AStepOverTheBudgetIsAnError) {
  EXPECT_THAT(
      RunStep("no all_gather of parameters in layer_*"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(StartsWith("budget line \"no all_gather of parameters in "
                                "layer_*\" (--layout, characters "),
                     HasSubstr("all_gather of layer_0/w over data, 48 bytes "
                               "(budget_test.cc:"),
                     HasSubstr("rule io:data (--layout, rule 2 of 2, "))));
}

TEST(SessionBudget, MemoryLimitsApplyToEveryProgram) {
  Graph graph;
  const Model model(graph);
  const auto session = Session::Create(
      graph, "data:2", "batch:data [budget] memory at most 16 B");
  ASSERT_OK(session);
  EXPECT_THAT((*session)->Initialize(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("memory at most 16 B")));
}

TEST(SessionBudget, LinesWithoutEffectAreNotices) {
  Graph graph;
  const Model model(graph);
  const auto session = Session::Create(
      graph, "data:2", "batch:data [budget] nothing over pod in layer_0");
  ASSERT_OK(session);
  EXPECT_THAT((*session)->notices(),
              ::testing::ElementsAre(HasSubstr("has no axis \"pod\"")));
  EXPECT_THAT(
      Session::Create(graph, "data:2", "batch:data [budget] nothing in layr_0"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("did you mean \"layer_0\"?")));
}

}  // namespace
}  // namespace mtf::train
