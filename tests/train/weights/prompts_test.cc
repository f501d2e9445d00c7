// SPDX-License-Identifier: Apache-2.0
//
// Prompt tuning of published models: under every layout, and what is exported.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/checkpoint/temporary_folder.h"
#include "tests/train/weights/fine_tuning.h"
#include "tests/train/weights/model_fixture.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class PromptedModels : public ::testing::TestWithParam<std::string> {};

TEST_P(PromptedModels, TrainEquallyUnderAllLayouts) {
  ModelFixture fixture(GetParam(), {}, 4);
  const Tensor step = TrainAdapters(fixture, "**/prompt");
  ASSERT_OK(fixture.graph().status());
  std::vector<double> first;
  for (const FineTuningPlace& place : kFineTuningPlaces) {
    SCOPED_TRACE(absl::StrCat(place.mesh, " ", place.layout));
    const auto session =
        fixture.Start(place.mesh, place.layout, fixture.weights());
    ASSERT_NE(session, nullptr);
    const std::vector<double> losses = TrainSteps(fixture, *session, step);
    ASSERT_EQ(losses.size(), 20);
    if (first.empty()) first = losses;
    EXPECT_LT(GreatestDifference(losses, first), 1e-4);
    EXPECT_LT(losses.back(), losses.front());
  }
  // A layout that shards the positions, with the prompt among them.
  const auto session =
      fixture.Start("model:3", "length:model", fixture.weights());
  ASSERT_NE(session, nullptr);
  EXPECT_LT(GreatestDifference(TrainSteps(fixture, *session, step), first),
            1e-4);
  const TemporaryFolder folder;
  EXPECT_THAT(
      ExportWeights(*session, fixture.model().weights, folder / "merged"),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("the prompt"),
                     HasSubstr("mtf convert: --merge_adapters=false"))));
  ASSERT_OK(ExportWeights(*session, fixture.model().weights, folder / "base",
                          {.merge_adapters = false}));
  ModelFixture plain(GetParam());
  const auto base = plain.Start("data:1", "", folder / "base"),
             original = plain.Start("data:1", "", plain.weights());
  EXPECT_EQ(LogitsOf(plain, *base), LogitsOf(plain, *original));
}

INSTANTIATE_TEST_SUITE_P(All, PromptedModels,
                         ::testing::Values("gpt2", "llama3", "t5"),
                         [](const auto& info) { return info.param; });

TEST(PromptedModel, IsALanguageModelOrT5) {
  Graph graph;
  EXPECT_THAT(
      nn::BuildModel(graph, "", FileText(ModelFolder("vit") + "/config.json"),
                     {.prompt_length = 3})
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("a prompt of 3 vectors")));
}

}  // namespace
}  // namespace mtf::train
