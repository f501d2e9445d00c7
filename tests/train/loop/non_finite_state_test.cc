// SPDX-License-Identifier: Apache-2.0
//
// Variables that become NaN by the update of a step whose loss is finite: such
// a state is never saved.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/optimizers/sgd.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/train/loop/memory_store.h"
#include "train/loop/find_non_finite.h"
#include "train/loop/trainer.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A parameter whose gradient is NaN in the step of batch 24, because the
// derivative of a square root at 0 is infinite; the loss is finite.
class NanGradient {
 public:
  using Change = std::function<void(Training& training)>;

  absl::StatusOr<TrainingResult> Run(const Change& change,
                                     bool skip_non_finite = false) {
    Graph graph;
    const Tensor scale = Input(graph, "scale", kFloat32, {});
    const Tensor age = Input(graph, "age", kFloat32, {});
    const Tensor guess =
        Variable(graph, "guess", Ones(graph, kFloat32, {{"rows", 5}}));
    Training training;
    training.loss = Sqrt(ReduceSum(Square(guess * scale), {}));
    training.update =
        nn::Sgd({.learning_rate = 0.01, .skip_non_finite = skip_non_finite})
            .Minimize(training.loss);
    training.steps = 40;
    training.reading.threads = 0;  // which would read on behind a batch
    training.feeds = [this](int64_t batch) {
      batches.push_back(batch);
      return Feeds(batch == 24 ? 0 : 1, 0);
    };
    // Better from evaluation to evaluation, whatever the parameter is.
    training.evaluate.evaluation = {
        .metrics = LossMetrics(age), .batches = 1, .feeds = [this](int64_t) {
          return Feeds(1, --age_);
        }};
    const SavedState state(graph);
    auto session = Session::Create(graph, "a:2", "rows:a");
    EXPECT_OK(session);
    EXPECT_OK((*session)->Initialize());
    MemoryStore store(states, state, **session);
    training.saving = {.store = &store, .every = 5};
    change(training);
    auto result = Train(**session, training);
    for (const auto& [step, saved] : states.by_step) {
      for (const auto& [name, value] : saved.values) {
        EXPECT_THAT(
            value.ToDoubles(),
            Each(::testing::Truly([](double v) { return std::isfinite(v); })))
            << name << " of step " << step;
      }
    }
    return result;
  }

  MemoryStates states;
  std::vector<int64_t> batches;  // that were fed, in order

 private:
  static absl::StatusOr<std::map<std::string, HostTensor>> Feeds(double scale,
                                                                 double age) {
    return std::map<std::string, HostTensor>{
        {"scale", HostTensor::FromDoubles({}, kFloat32, {scale})},
        {"age", HostTensor::FromDoubles({}, kFloat32, {age})}};
  }
  double age_ = 100;
};

TEST(NonFiniteState, IsNotSavedButEndsTheRun) {
  for (const Remedy remedy : {Remedy::kStop, Remedy::kSkip}) {
    NanGradient run;
    EXPECT_THAT(
        run.Run(
            [&](Training& training) { training.guard.non_finite = remedy; }),
        StatusIs(absl::StatusCode::kOutOfRange,
                 AllOf(HasSubstr("the variables after 25 steps are not finite "
                                 "and were not saved"),
                       HasSubstr("first    NaN in 5 of 5 elements of variable "
                                 "\"guess\""),
                       HasSubstr("saved    the state of step 20"))));
    EXPECT_THAT(run.states.saves, ElementsAre(5, 10, 15, 20));
  }
}

// The loss of the next step is NaN, and its batch cannot be skipped.
TEST(NonFiniteState, IsFoundBeforeABatchIsSkipped) {
  NanGradient run;
  EXPECT_THAT(run.Run([](Training& training) {
    training.guard.non_finite = Remedy::kSkip;
    training.saving.every = 10;
  }),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr("the loss is "),
                             HasSubstr("after step 25, and its batch cannot be "
                                       "skipped"))));
  EXPECT_THAT(run.states.saves, ElementsAre(10, 20));
}

TEST(NonFiniteState, DoesNotComeFromAnOptimizerThatSkips) {
  NanGradient run;
  EXPECT_OK(run.Run(
      [](Training& training) { training.guard.non_finite = Remedy::kSkip; },
      /*skip_non_finite=*/true));
  EXPECT_THAT(run.states.saves, ElementsAre(5, 10, 15, 20, 25, 30, 35, 40));
}

TEST(NonFiniteState, IsRolledBack) {
  NanGradient run;
  EXPECT_OK(run.Run([](Training& training) {
    training.guard.non_finite = Remedy::kRollBack;
  }));
  EXPECT_THAT(run.states.saves, ElementsAre(0, 5, 10, 15, 20, 25, 30, 35, 40));
  EXPECT_EQ(run.batches.back(), 40);
  // Batches 20 to 23 were read twice, batch 24 only before.
  EXPECT_EQ(std::count(run.batches.begin(), run.batches.end(), 23), 2);
  EXPECT_EQ(std::count(run.batches.begin(), run.batches.end(), 24), 1);
}

TEST(NonFiniteState, IsNotTheBest) {
  NanGradient run;
  EXPECT_EQ(run.Run([](Training& training) {
                 training.evaluate.every = 5;
                 training.saving.every = 0;
               })
                .status()
                .code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(run.states.best_step, 20);
  EXPECT_THAT(run.states.saves, Not(Contains(25)));
}

TEST(FindNonFiniteVariable, CountsOverRanksAndKnowsMasks) {
  Graph graph;
  const Dimension rows{"rows", 5};
  Variable(graph, "mask", Zeros(graph, kFloat32, {rows}), {.trainable = false});
  Variable(graph, "half", Zeros(graph, kBFloat16, {rows}));
  Variable(graph, "wide", Zeros(graph, kFloat32, {rows}));
  auto session = Session::Create(graph, "a:3", "rows:a");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto found = [&] { return *FindNonFiniteVariable(**session); };
  const auto set = [&](const std::string& name, DType dtype,
                       const std::vector<double>& values) {
    ASSERT_OK((*session)->WriteVariable(
        name, HostTensor::FromDoubles({rows}, dtype, values)));
  };
  // An infinity of a variable that is not trained is meant.
  set("mask", kFloat32, {0, -INFINITY, 0, 0, -INFINITY});
  EXPECT_EQ(found(), "");
  set("wide", kFloat32, {3e38, -3e38, 1e-45, 0, 1});
  EXPECT_EQ(found(), "");
  set("wide", kFloat32, {-INFINITY, 0, 0, 0, INFINITY});
  EXPECT_EQ(found(), "infinite in 2 of 5 elements of variable \"wide\"");
  set("half", kBFloat16, {0, NAN, 0, NAN, INFINITY});
  EXPECT_EQ(found(), "NaN in 3 of 5 elements of variable \"half\"");
  set("mask", kFloat32, {0, 0, NAN, 0, 0});
  EXPECT_EQ(found(), "NaN in 1 of 5 elements of variable \"mask\"");
}

}  // namespace
}  // namespace mtf::train
