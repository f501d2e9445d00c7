// SPDX-License-Identifier: Apache-2.0
//
// A run that is stopped and goes on is the run that was not stopped, bit for
// bit: losses, evaluations, log and result. The model has dropout,
// clipping, and for f16 a loss scale.
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/precision_text.h"
#include "nn/optimizers/sgd.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/run_command.h"
#include "tests/train/loop/memory_store.h"
#include "tests/train/small_lm.h"
#include "train/loop/metrics.h"
#include "train/loop/trainer.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::mtf::testing::Temporary;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job: a process from its start to its end, with a graph and a session.
struct Job {
  absl::StatusOr<TrainingResult> result = absl::InternalError("not run");
  int64_t step = 0;
  SavedState::Values values;
};

using Change = std::function<void(Training& training)>;

Job RunJob(MemoryStates& states, const std::string& precision,
           const std::string& mesh, const std::string& layout,
           const Change& change) {
  Job job;
  Graph graph;
  const SmallLm model = BuildSmallLm(graph, *ParsePrecision(precision));
  const SavedState state(graph);
  const TextDataset text = SmallText();
  auto session = Session::Create(graph, mesh, layout, {.seed = 7});
  EXPECT_OK(session);
  EXPECT_OK((*session)->Initialize());
  MemoryStore store(states, state, **session);
  Training training = {
      .loss = model.loss,
      .update = model.step,
      .steps = 24,
      .feeds = TextFeeds(text, model.tokens, model.targets, 7),
      .tokens_per_step = 60,
      .evaluate = {.evaluation = {.metrics = LossMetrics(model.loss),
                                  .batches = 1,
                                  .feeds =
                                      [&](int64_t) {
                                        return TextFeeds(text, model.tokens,
                                                         model.targets,
                                                         9)(1000);
                                      }},
                   .every = 4},
      .guard = {.spike_deviations = 50},
      .saving = {.store = &store, .every = 5}};
  change(training);
  job.result = Train(**session, training);
  job.step = (*session)->step();
  if (job.result.ok()) job.values = *state.Save(**session);
  return job;
}

// Ends the job with an error after `steps` steps, as a kill does.
Change KilledAfter(int64_t steps, const std::string& log) {
  return [steps, log](Training& training) {
    training.log_json = log;
    training.callbacks.push_back(
        {.on_step = [steps](const StepMetrics& metrics) -> absl::Status {
          if (metrics.step + 1 < steps) return absl::OkStatus();
          return absl::CancelledError("killed");
        }});
  };
}

struct Logged {
  std::vector<double> losses;
  std::vector<EvaluationMetrics> evaluations;
  friend bool operator==(const Logged&, const Logged&) = default;
};

Logged ReadLog(const std::string& path) {
  Logged logged;
  const std::vector<StepMetrics> steps = *ReadMetrics(path);
  for (const StepMetrics& step : steps) {
    logged.losses.push_back(step.loss);
  }
  logged.evaluations = *ReadEvaluations(path);
  return logged;
}

class ResumeUnder : public ::testing::TestWithParam<const char*> {};

TEST_P(ResumeUnder, IsTheRunThatWasNotStopped) {
  const std::string log = Temporary("whole.json"), other = Temporary("part");
  const auto run = [](MemoryStates& states, const Change& change) {
    return RunJob(states, GetParam(), "data:2", "batch:data", change);
  };
  MemoryStates states;
  const Job whole =
      run(states, [&](Training& training) { training.log_json = log; });
  ASSERT_OK(whole.result);
  EXPECT_EQ(states.by_step.rbegin()->first, 24);
  const Logged expected = ReadLog(log);
  ASSERT_EQ(expected.losses.size(), 24u);
  ASSERT_EQ(expected.evaluations.size(), 6u);

  // Killed twice: after 13 steps, of which 12 are saved (the evaluation after
  // 12 was the best), and after 23, of which 20 are.
  MemoryStates parts;
  EXPECT_THAT(run(parts, KilledAfter(13, other)).result,
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("killed")));
  EXPECT_THAT(run(parts, KilledAfter(23, other)).result,
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("killed")));
  const Job last =
      run(parts, [&](Training& training) { training.log_json = other; });
  ASSERT_OK(last.result);
  EXPECT_TRUE(ReadLog(other) == expected);
  EXPECT_TRUE(last.values == whole.values);
  EXPECT_EQ(last.result->loss, whole.result->loss);
  EXPECT_EQ(last.result->smooth_loss, whole.result->smooth_loss);
  EXPECT_EQ(last.result->best_value, whole.result->best_value);
  EXPECT_EQ(last.result->best_step, whole.result->best_step);
  EXPECT_EQ(parts.best_step, states.best_step);

  // A run that has ended does nothing more, and has the same result.
  const Job again = run(parts, [](Training&) {});
  ASSERT_OK(again.result);
  EXPECT_EQ(again.step, 24);
  EXPECT_EQ(again.result->smooth_loss, whole.result->smooth_loss);
  std::remove(log.c_str());
  std::remove(other.c_str());
}

INSTANTIATE_TEST_SUITE_P(Precisions, ResumeUnder,
                         ::testing::Values("float32", "mixed_float16"));

TEST(Resume, ALongerRunHasTheLastTenthOfAllItsSteps) {
  const auto run = [](MemoryStates& states, int64_t steps) {
    return RunJob(states, "float32", "", "",
                  [&](Training& training) { training.steps = steps; });
  };
  MemoryStates states, parts;
  const Job whole = run(states, 26);
  ASSERT_OK(whole.result);
  ASSERT_OK(run(parts, 24).result);
  const Job longer =
      run(parts, 26);  // its last tenth begins before its first step
  ASSERT_OK(longer.result);
  EXPECT_NEAR(longer.result->smooth_loss, whole.result->smooth_loss, 1e-12);
}

TEST(Resume, OnAnotherMeshHasTheSameLosses) {
  const std::string log = Temporary("moved.json");
  MemoryStates states, moved;
  ASSERT_OK(RunJob(states, "float32", "", "", [&](Training& training) {
              training.log_json = log;
            }).result);
  const std::vector<double> expected = ReadLog(log).losses;
  EXPECT_FALSE(
      RunJob(moved, "float32", "data:2", "batch:data", KilledAfter(13, log))
          .result.ok());
  ASSERT_OK(RunJob(moved, "float32", "model:3", "d_ff:model, vocab:model",
                   [&](Training& training) { training.log_json = log; })
                .result);
  const std::vector<double> losses = ReadLog(log).losses;
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << i;
  }
  std::remove(log.c_str());
}

TEST(Resume, ASignalSavesAfterTheStepAndSaysStartAgain) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    MemoryStates states;
    const Job job =
        RunJob(states, "float32", "data:2", "batch:data",
               [signal](Training& training) {
                 training.saving.every = 0;
                 training.evaluate.every = 0;
                 training.callbacks.push_back(
                     {.on_step = [signal](const StepMetrics& metrics) {
                       if (metrics.step == 6) raise(signal);
                       return absl::OkStatus();
                     }});
               });
    EXPECT_THAT(job.result, StatusIs(absl::StatusCode::kUnavailable,
                                     AllOf(HasSubstr("after step 7"),
                                           HasSubstr("memory"))));
    EXPECT_THAT(states.saves, ElementsAre(7));
  }
}

TEST(Resume, ItsKindsAreCheckedBeforeTheFirstStep) {
  MemoryStates states;
  const auto run = [&](Resume resume, int64_t step, int64_t steps = 24) {
    return RunJob(states, "float32", "", "",
                  [&](Training& training) {
                    training.saving.resume = resume;
                    training.saving.step = step;
                    training.steps = steps;
                    training.evaluate.every = 0;
                  })
        .result;
  };
  EXPECT_THAT(run(Resume::kMust, 0), StatusIs(absl::StatusCode::kNotFound,
                                              HasSubstr("in \"memory\"")));
  EXPECT_THAT(run(Resume::kStep, 5), StatusIs(absl::StatusCode::kNotFound,
                                              HasSubstr("no state of step 5")));
  ASSERT_OK(run(Resume::kNever, 0, 10));
  EXPECT_THAT(states.saves, ElementsAre(5, 10));
  EXPECT_THAT(run(Resume::kNever, 0), StatusIs(absl::StatusCode::kAlreadyExists,
                                               HasSubstr("of step 10")));
  EXPECT_THAT(run(Resume::kAuto, 0, 9),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("is of step 10, but the run ends at 9")));
  ASSERT_OK(run(Resume::kStep, 5, 7));
  EXPECT_THAT(states.saves, ElementsAre(5, 10, 7));
}

// A parameter that converges to 3, with goals that a test can spoil.
class SpoiledGoals {
 public:
  absl::StatusOr<TrainingResult> Run(const Change& change) {
    Graph graph;
    const Dimension batch{"batch", 4};
    const Tensor goal = Input(graph, "goal", kFloat32, {batch});
    const Tensor guess = Variable(graph, "guess", Zeros(graph, kFloat32, {}));
    Training training;
    training.loss = ReduceMean(Square(guess - goal), {});
    training.update = nn::Sgd({.learning_rate = 0.01}).Minimize(training.loss);
    training.steps = 60;
    training.reading.threads = 0;  // which would read on behind a batch
    training.feeds = [&](int64_t number) {
      batches.push_back(number);
      const double last = spoiled.count(number) > 0 ? spoiled.at(number) : 3;
      return std::map<std::string, HostTensor>{
          {"goal",
           HostTensor::FromDoubles({batch}, kFloat32, {3, 3, 3, last})}};
    };
    const SavedState state(graph);
    auto session = Session::Create(graph, "data:2", "batch:data");
    EXPECT_OK(session);
    EXPECT_OK((*session)->Initialize());
    MemoryStore store(states, state, **session);
    training.saving = {.store = &store, .every = 10};
    change(training);
    auto result = Train(**session, training);
    step = (*session)->step();
    return result;
  }

  MemoryStates states;
  std::map<int64_t, double> spoiled;  // by batch: one goal of it
  std::vector<int64_t> batches;       // that were fed, in order
  int64_t step = 0;
};

TEST(RollBack, LeavesOutABatchOfANonFiniteLoss) {
  SpoiledGoals run;
  run.spoiled = {{25, NAN}, {27, NAN}};
  const std::string log = Temporary("rolled.json");
  const auto result = run.Run([&](Training& training) {
    training.guard.non_finite = Remedy::kRollBack;
    training.log_json = log;
  });
  ASSERT_OK(result);
  // As many steps, of other batches, none of which is spoiled.
  EXPECT_EQ(run.step, 60);
  EXPECT_EQ(run.batches.back(), 61);
  const auto steps = ReadMetrics(log);
  ASSERT_OK(steps);
  ASSERT_EQ(steps->size(), 60u);
  double goal = 9;
  for (int i = 0; i < 60; ++i, goal *= 0.98 * 0.98) {
    EXPECT_EQ((*steps)[i].step, i);
    EXPECT_NEAR((*steps)[i].loss, goal, 1e-5);
  }
  std::remove(log.c_str());
}

TEST(RollBack, LeavesOutASpike) {
  SpoiledGoals run;
  run.spoiled = {{35, 500}};
  const auto change = [](Training& training) {
    training.guard.spike = Remedy::kRollBack;
    training.guard.spike_deviations = 6;
  };
  const auto result = run.Run(change);
  ASSERT_OK(result);
  EXPECT_NEAR(result->loss, 9 * std::pow(0.98, 2 * 59), 1e-5);
  EXPECT_EQ(run.batches.back(), 60);
}

TEST(RollBack, EndsWhenItReturnsToOneStateTooOften) {
  SpoiledGoals run;
  for (int i = 15; i < 60; ++i) run.spoiled[i] = NAN;
  EXPECT_THAT(
      run.Run([](Training& training) {
        training.guard.non_finite = Remedy::kRollBack;
      }),
      StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("after step 15")));
  EXPECT_EQ(run.batches.size(), 16u + LossGuard::kMostInARow * 6 + 6);
}

TEST(Stop, FindsTheFirstTensorOfTheStepInTheStateBeforeIt) {
  SpoiledGoals run;
  run.spoiled = {{25, NAN}};
  EXPECT_THAT(
      run.Run([](Training&) {}),
      StatusIs(absl::StatusCode::kOutOfRange,
               AllOf(HasSubstr("the loss is nan after step 25\n"),
                     HasSubstr("first    NaN in 1 of 4 elements of \"goal"),
                     HasSubstr("batch    25"),
                     ::testing::Not(HasSubstr("after the update")))));
  EXPECT_EQ(run.step, 25);
  EXPECT_THAT(run.states.saves, ElementsAre(10, 20));
}

}  // namespace
}  // namespace mtf::train
