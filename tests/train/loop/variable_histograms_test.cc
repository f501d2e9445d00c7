// SPDX-License-Identifier: Apache-2.0
//
// Histograms of parameters: the same under every layout, and in the event
// files of a run and of the run that resumes it.
#include "train/loop/variable_histograms.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/constant.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/run_command.h"
#include "tests/train/loop/memory_store.h"
#include "tests/train/loop/toy_training.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Shape& KernelShape() {
  static const Shape& shape = *new Shape({{"rows", 7}, {"columns", 5}});
  return shape;
}

// Of sizes that the mesh does not divide, beside a variable that is no float.
struct TwoKernels {
  TwoKernels() {
    Scope scope(graph, "layer_1");
    Variable(graph, "kernel", Zeros(graph, kFloat32, KernelShape()));
    Variable(graph, "other", Zeros(graph, kBFloat16, KernelShape()));
    Variable(graph, "counter", Zeros(graph, kInt32, {}));
  }
  Graph graph;
};

HostTensor KernelValues() {
  std::vector<double> values;
  for (int i = 0; i < 35; ++i) values.push_back(0.25 * (i % 9 - 4));
  values[3] = NAN;
  values[34] = std::numeric_limits<double>::infinity();
  values[20] = -std::numeric_limits<double>::infinity();
  return HostTensor::FromDoubles(KernelShape(), kFloat32, values);
}

TEST(HistogramsOfVariables, CountEachElementOnceUnderEveryLayout) {
  const HostTensor values = KernelValues();
  const Histogram expected = MakeHistogram(values.ToDoubles());
  ASSERT_EQ(expected.count, 32);
  for (const char* layout :
       {"", "rows:data", "rows:data, columns:model", "columns:data+model"}) {
    SCOPED_TRACE(layout);
    TwoKernels model;
    auto session = Session::Create(model.graph, "data:2,model:2", layout);
    ASSERT_OK(session);
    ASSERT_OK((*session)->Initialize());
    ASSERT_OK((*session)->WriteVariable("layer_1/kernel", values));
    const auto ids = ParametersThatMatch(model.graph, {});
    ASSERT_OK(ids);
    const auto histograms = HistogramsOfVariables(**session, *ids);
    ASSERT_OK(histograms);
    ASSERT_EQ(histograms->size(), 2u);
    const VariableHistogram& kernel = (*histograms)[0];
    EXPECT_EQ(kernel.name, "layer_1/kernel");
    EXPECT_EQ(kernel.nan, 1);
    EXPECT_EQ(kernel.infinite, 2);
    // All sums are exact in these multiples of a quarter.
    EXPECT_EQ(kernel.histogram, expected);
    EXPECT_EQ((*histograms)[1].name, "layer_1/other");
    EXPECT_EQ((*histograms)[1].histogram.count, 35);
    EXPECT_THAT((*histograms)[1].histogram.limits, ElementsAre(0));
  }
}

TEST(ParametersThatMatch, AreChosenByPatterns) {
  TwoKernels model;
  EXPECT_EQ(ParametersThatMatch(model.graph, {"layer_*/other"})->size(), 1u);
  EXPECT_EQ(ParametersThatMatch(model.graph, {"layer_*"})->size(), 2u);
  EXPECT_THAT(ParametersThatMatch(model.graph, {"layer_*", "kernel"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("no parameter matches \"kernel\""),
                             HasSubstr("is it \"**/kernel\"?"))));
  EXPECT_THAT(ParametersThatMatch(model.graph, {"a b"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"a b\" is not a pattern")));
}

// Trains the toy until `steps`, from the last of `states`, and returns the
// histograms in the folder by step.
std::map<int64_t, Histogram> TrainWithHistograms(int64_t steps,
                                                 const std::string& folder,
                                                 MemoryStates& states) {
  Graph graph;
  Toy toy(graph, 0.1);
  toy.training.steps = steps;
  toy.training.events = folder;
  toy.training.histograms = {.every = 3, .parameters = {"guess"}};
  toy.training.sample_every = 3;
  toy.training.sample = [] { return std::string("a sample"); };
  toy.training.evaluate = {
      .evaluation = {.metrics = LossMetrics(toy.training.loss),
                     .batches = 1,
                     .feeds = toy.training.feeds},
      .every = 3};
  auto session = Session::Create(graph, "data:2", "batch:data");
  EXPECT_OK(session);
  EXPECT_OK((*session)->Initialize());
  const SavedState state(graph);
  MemoryStore store(states, state, **session);
  toy.training.saving = {.store = &store};
  EXPECT_OK(Train(**session, toy.training));
  std::map<int64_t, Histogram> found;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const auto events = ReadEvents(file.path().string());
    EXPECT_OK(events);
    for (const Event& event : *events) {
      // TensorBoard drops what other files have from the start of a run on.
      if (event.starts) {
        EXPECT_TRUE(event.step == 0 || event.step == 6) << event.step;
      }
      if (event.texts.contains("sample")) {
        EXPECT_EQ(event.step % 3, 2);
      }
      if (event.scalars.contains("evaluation/loss") && event.step != 9) {
        EXPECT_EQ(event.step % 3, 2);
      }
      for (const auto& [name, histogram] : event.histograms) {
        EXPECT_EQ(name, "guess");
        EXPECT_TRUE(found.emplace(event.step, histogram).second) << event.step;
      }
    }
  }
  return found;
}

TEST(TrainingHistograms, GoOnInResumedRuns) {
  const std::string whole = mtf::testing::Temporary("whole_histograms"),
                    parts = mtf::testing::Temporary("histograms_in_parts");
  MemoryStates of_whole, of_parts;
  const auto expected = TrainWithHistograms(10, whole, of_whole);
  ASSERT_EQ(expected.size(), 3u);
  for (const auto& [step, histogram] : expected) {
    EXPECT_EQ(histogram.count, 1);
    EXPECT_NEAR(histogram.sum, 3 - 3 * std::pow(0.8, step + 1), 1e-5);
  }
  EXPECT_THAT(TrainWithHistograms(6, parts, of_parts),
              ElementsAre(::testing::Key(2), ::testing::Key(5)));
  EXPECT_EQ(TrainWithHistograms(10, parts, of_parts), expected);
  std::filesystem::remove_all(whole);
  std::filesystem::remove_all(parts);
}

TEST(TrainingHistograms, SayWhatTheyLeaveOut) {
  Graph graph;
  Toy toy(graph, 0.1);
  Variable(graph, "mask",
           Constant(graph, {0, -std::numeric_limits<double>::infinity()},
                    kFloat32, {{"pair", 2}}));
  toy.training.steps = 4;
  toy.training.events = mtf::testing::Temporary("events_of_mask");
  toy.training.histograms.every = 2;
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  ::testing::internal::CaptureStdout();
  const auto result = Train(**session, toy.training);
  const std::string shown = ::testing::internal::GetCapturedStdout();
  ASSERT_OK(result);
  const std::string note =
      "note: the histogram of \"mask\" after step 1 leaves out 0 NaN and 1 "
      "infinite values";
  EXPECT_THAT(shown, HasSubstr(note));
  EXPECT_THAT(shown, ::testing::Not(HasSubstr("after step 3 leaves out")));
  int scalars = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(toy.training.events)) {
    const auto events = ReadEvents(file.path().string());
    ASSERT_OK(events);
    for (const Event& event : *events) {
      const auto found = event.scalars.find("not_finite/mask");
      if (found == event.scalars.end()) continue;
      EXPECT_EQ(found->second, 1);
      ++scalars;
    }
  }
  EXPECT_EQ(scalars, 2);
  std::filesystem::remove_all(toy.training.events);
}

TEST(TrainingHistograms, NeedAnEventFileAndParameters) {
  Graph graph;
  Toy toy(graph, 0.1);
  toy.training.steps = 2;
  toy.training.histograms.every = 1;
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  EXPECT_THAT(Train(**session, toy.training),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("histograms are due every 1 step"),
                             HasSubstr("--events"))));
  toy.training.events = mtf::testing::Temporary("no_histograms");
  toy.training.histograms.parameters = {"guesses"};
  EXPECT_THAT(Train(**session, toy.training),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no parameter matches \"guesses\"")));
  EXPECT_EQ((*session)->step(), 0);
}

}  // namespace
}  // namespace mtf::train
