// SPDX-License-Identifier: Apache-2.0
#include "train/loop/trainer.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/run_command.h"
#include "tests/train/loop/toy_training.h"
#include "train/loop/event_file.h"
#include "train/loop/metrics.h"
#include "train/loop/text_sampler.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Train, LowersTheLossAndLogsEveryStep) {
  Graph graph;
  Toy toy(graph, 0.1);
  toy.training.steps = 20;
  toy.training.log_json =
      absl::StrCat(::testing::TempDir(), "/train_test.json");
  auto session = Session::Create(graph, "data:2", "batch:data");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto result = Train(**session, toy.training);
  ASSERT_OK(result);
  EXPECT_LT(result->loss, 0.01);
  EXPECT_GT(result->tokens_per_s, 0);

  const auto steps = ReadMetrics(toy.training.log_json);
  ASSERT_OK(steps);
  ASSERT_EQ(steps->size(), 20u);
  EXPECT_NEAR((*steps)[0].loss, 9, 1e-6);
  EXPECT_EQ((*steps)[19].loss, result->loss);
  EXPECT_NEAR(result->smooth_loss, ((*steps)[18].loss + (*steps)[19].loss) / 2,
              1e-12);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ((*steps)[i].step, i);
    EXPECT_EQ((*steps)[i].collectives, (*steps)[0].collectives);
    EXPECT_GT((*steps)[i].tokens_per_s, 0);
  }
  // The median of the 19 steps after the first: ten are at most as slow.
  int no_slower = 0;
  for (int i = 1; i < 20; ++i) {
    if (4 / (*steps)[i].tokens_per_s <= result->median_step_s * (1 + 1e-6)) {
      ++no_slower;
    }
  }
  EXPECT_GE(no_slower, 10);
  EXPECT_GT(result->median_step_s, 0);
  ASSERT_FALSE((*steps)[0].collectives.empty());
  EXPECT_EQ((*steps)[0].collectives[0].kind, "all_reduce");
  EXPECT_EQ((*steps)[0].collectives[0].axes, "data");
}

TEST(Train, StopsAtALossThatIsNotFinite) {
  Graph graph;
  Toy toy(graph, 1e6);
  toy.training.steps = 1000;
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  EXPECT_THAT(
      Train(**session, toy.training),
      StatusIs(absl::StatusCode::kOutOfRange,
               AllOf(HasSubstr("the loss is "), HasSubstr("after step "),
                     HasSubstr("--learning_rate"))));
  EXPECT_LT((*session)->step(), 20);
}

TEST(Train, SaysWhichTensorIsNotFinite) {
  Graph graph;
  Toy toy(graph, 1e6);
  toy.training.steps = 1000;
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  EXPECT_THAT(
      Train(**session, toy.training),
      StatusIs(absl::StatusCode::kOutOfRange,
               AllOf(HasSubstr("first    infinite in 4 of 4 elements of "
                               "\"square"),
                     HasSubstr("toy_training.h:"),
                     HasSubstr("after the update of the step"))));
}

TEST(Train, LeavesOutABatchWhoseUpdateTheOptimizerSkips) {
  Graph graph;
  Toy toy(graph, 0.1, /*skip_non_finite=*/true);
  toy.training.steps = 20;
  toy.training.guard.non_finite = Remedy::kSkip;
  const auto feeds = toy.training.feeds;
  toy.training.feeds = [feeds](int64_t batch) {
    auto result = feeds(batch);
    const double goal = batch == 4 ? NAN : 3;
    (*result)["goal"] =
        HostTensor::FromDoubles({{"batch", 4}}, kFloat32, {3, 3, 3, goal});
    return result;
  };
  std::vector<int64_t> steps;
  toy.training.callbacks.push_back(
      {.on_step = [&steps](const StepMetrics& metrics) {
        steps.push_back(metrics.step);
        return absl::OkStatus();
      }});
  auto session = Session::Create(graph, "data:2", "batch:data");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto result = Train(**session, toy.training);
  ASSERT_OK(result);
  EXPECT_LT(result->loss, 0.02);
  EXPECT_EQ((*session)->step(), 20);
  EXPECT_EQ(steps.size(), 19u);
  EXPECT_EQ(steps[4], 5);
  // Not one update more than the batches that were trained on.
  EXPECT_NEAR(*(*session)->ReadVariable("guess")->At(0),
              3 - 3 * std::pow(0.8, 19), 1e-5);

  // Without the option the parameter is lost, and skipping does not go on.
  Graph plain;
  Toy unguarded(plain, 0.1);
  unguarded.training.steps = 20;
  unguarded.training.feeds = toy.training.feeds;
  unguarded.training.guard.non_finite = Remedy::kSkip;
  session = Session::Create(plain, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  EXPECT_THAT(
      Train(**session, unguarded.training),
      StatusIs(absl::StatusCode::kOutOfRange,
               AllOf(HasSubstr("and its batch cannot be skipped: NaN in 1 of 1 "
                               "element of variable \"guess\""),
                     HasSubstr("skip_non_finite"))));
  EXPECT_EQ((*session)->step(), 5);
}

TEST(Train, StopsAtASpikeIfToldTo) {
  Graph graph;
  Toy toy(graph, 0.01);
  toy.training.steps = 100;
  toy.training.guard.spike = Remedy::kStop;
  toy.training.guard.spike_deviations = 6;
  const auto feeds = toy.training.feeds;
  toy.training.feeds = [feeds](int64_t batch) {
    auto result = feeds(batch);
    if (batch != 50) return result;
    (*result)["goal"] =
        HostTensor::FromDoubles({{"batch", 4}}, kFloat32, {3, 3, 3, 1000});
    return result;
  };
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  EXPECT_THAT(
      Train(**session, toy.training),
      StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("after step 50")));
  // Reported only, it ends well.
  toy.training.guard.spike = Remedy::kReport;
  ASSERT_OK((*session)->Initialize());
  ASSERT_OK(Train(**session, toy.training));
}

TEST(Train, EvaluatesKeepsTheBestAndStopsEarly) {
  Graph graph;
  Toy toy(graph, 0.1);
  toy.training.steps = 100;
  toy.training.log_json =
      absl::StrCat(::testing::TempDir(), "/evaluations_of_train.json");
  // The best guess on the held-out data is 2, on the way to 3.
  toy.training.evaluate = {
      .evaluation = {.metrics = LossMetrics(toy.training.loss),
                     .batches = 2,
                     .feeds =
                         [](int64_t) {
                           return std::map<std::string, HostTensor>{
                               {"goal",
                                HostTensor::FromDoubles(
                                    {{"batch", 4}}, kFloat32, {2, 2, 2, 2})}};
                         }},
      .every = 2,
      .patience = 3};
  std::vector<int64_t> evaluated;
  int ended = 0;
  std::vector<double> losses;
  toy.training.callbacks.push_back({.on_step = [&](const StepMetrics& step) {
    losses.push_back(step.loss);
    return absl::OkStatus();
  }});
  toy.training.callbacks.push_back(
      {.on_evaluation =
           [&](int64_t step, const MetricValues& values) {
             evaluated.push_back(step);
             EXPECT_EQ(values.size(), 2u);
             return absl::OkStatus();
           },
       .on_end =
           [&](const TrainingResult& result) {
             EXPECT_TRUE(result.stopped_early);
             ++ended;
             return absl::OkStatus();
           }});
  auto session = Session::Create(graph, "data:2", "batch:data");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto result = Train(**session, toy.training);
  ASSERT_OK(result);
  // 3 - 3 * 0.8^n is nearest to 2 for n = 5, then for n = 6.
  EXPECT_EQ(result->best_step, 6);
  EXPECT_NEAR(result->best_value, std::pow(3 - 3 * std::pow(0.8, 6) - 2, 2),
              1e-5);
  EXPECT_THAT(evaluated, ElementsAre(2, 4, 6, 8, 10, 12));
  // The last tenth of the steps that were done.
  ASSERT_EQ(losses.size(), 12u);
  EXPECT_NEAR(result->smooth_loss, (losses[10] + losses[11]) / 2, 1e-12);
  EXPECT_EQ(ended, 1);
  const auto logged = ReadEvaluations(toy.training.log_json);
  ASSERT_OK(logged);
  ASSERT_EQ(logged->size(), 6u);
  EXPECT_EQ((*logged)[2].values.at("loss"), result->best_value);
}

TEST(Train, RejectsOptionsThatContradictEachOther) {
  Graph graph;
  Toy toy(graph, 0.1);
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto error = [&](auto change) {
    Training training = toy.training;
    change(training);
    return std::string(Train(**session, training).status().message());
  };
  EXPECT_THAT(error([](Training& t) { t.guard.non_finite = Remedy::kReport; }),
              HasSubstr("reporting is not enough"));
  EXPECT_THAT(error([](Training& t) { t.guard.spike = Remedy::kSkip; }),
              HasSubstr("updated when its loss is known"));
  EXPECT_THAT(
      error([](Training& t) { t.guard.non_finite = Remedy::kRollBack; }),
      HasSubstr("rolling back needs a saved state to return to"));
  EXPECT_THAT(error([](Training& t) { t.evaluate.every = 5; }),
              HasSubstr("\"loss\", which is not one of its"));
  EXPECT_THAT(error([](Training& t) { t.evaluate.patience = 5; }),
              HasSubstr("the patience is 5 evaluations, but nothing is"));
  const auto evaluated = [&](int64_t every) {
    return error([&](Training& t) {
      t.steps = 10;
      t.evaluate.evaluation = {
          .metrics = LossMetrics(t.loss), .batches = 1, .feeds = t.feeds};
      t.evaluate.every = every;
      t.evaluate.patience = 2;
    });
  };
  EXPECT_THAT(evaluated(10),
              AllOf(HasSubstr("the only evaluation of this run is at its end: "
                              "it has 10 steps, with an evaluation every 10"),
                    HasSubstr("evaluate more often than every 10 steps")));
  EXPECT_THAT(evaluated(9), "");
  EXPECT_THAT(error([](Training& t) { t.sample_every = 5; }),
              HasSubstr("there is no function that generates"));
  EXPECT_THAT(error([](Training& t) { t.guard.spike_window = 5; }),
              HasSubstr("spike_window is 5 losses, fewer than 20"));
}

TEST(Train, WritesAnEventFile) {
  Graph graph;
  Toy toy(graph, 0.1);
  toy.training.steps = 6;
  toy.training.events = ::mtf::testing::Temporary("events_of_train");
  toy.training.sample_every = 3;
  toy.training.sample = [] { return std::string("a sample"); };
  toy.training.flops_per_step = 1;
  toy.training.peak_flops = 1e15;
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  ASSERT_OK(Train(**session, toy.training));
  std::vector<std::string> files;
  for (const auto& file :
       std::filesystem::directory_iterator(toy.training.events)) {
    files.push_back(file.path().string());
  }
  ASSERT_EQ(files.size(), 1u);
  const auto events = ReadEvents(files[0]);
  ASSERT_OK(events);
  int losses = 0, samples = 0;
  for (const Event& event : *events) {
    losses += static_cast<int>(event.scalars.count("loss"));
    samples += static_cast<int>(event.texts.count("sample"));
    EXPECT_EQ(event.scalars.count("loss"),
              event.scalars.count("speed/share_of_peak"));
  }
  EXPECT_EQ(losses, 6);
  EXPECT_EQ(samples, 2);
  std::filesystem::remove_all(toy.training.events);
}

TEST(Train, AnUnwritableLogIsAnErrorBeforeTheFirstStep) {
  Graph graph;
  Toy toy(graph, 0.1);
  toy.training.steps = 5;
  toy.training.log_json = "/no/such/folder/log.json";
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  EXPECT_THAT(Train(**session, toy.training),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("/no/such/folder/log.json")));
  EXPECT_EQ((*session)->step(), 0);
}

TEST(TextFeeds, FeedsBothInputsOfAStep) {
  Graph graph;
  const Dimension batch{"batch", 2}, length{"length", 3};
  Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
  Tensor targets = Input(graph, "targets", kInt32, {batch, length});
  const TextDataset text = *TextDataset::FromText("abcdefgh", "letters");
  const auto feeds = TextFeeds(text, tokens, targets, 5)(9);
  ASSERT_OK(feeds);
  const auto batch9 = text.Draw(5, 9, batch, length);
  EXPECT_TRUE(feeds->at("tokens") == batch9->tokens);
  EXPECT_TRUE(feeds->at("targets") == batch9->targets);
}

TEST(SampleFromLogits, FollowsTheSoftmax) {
  const std::vector<float> logits = {0.0f, 0.0f, -1e9f, 0.0f};
  EXPECT_EQ(SampleFromLogits(logits, 1, 0.0), 0);
  EXPECT_EQ(SampleFromLogits(logits, 1, 0.4), 1);
  EXPECT_EQ(SampleFromLogits(logits, 1, 0.7), 3);
  EXPECT_EQ(SampleFromLogits(logits, 1, 0.999999), 3);
}

TEST(SampleFromLogits, ALowTemperatureSelectsTheMostLikely) {
  const std::vector<float> logits = {1.0f, 1.5f, 1.4f};
  for (const double uniform : {0.001, 0.3, 0.6, 0.999}) {
    EXPECT_EQ(SampleFromLogits(logits, 1e-3, uniform), 1);
  }
}

// A "model" whose logits predict byte t + 1 after byte t.
struct Successor {
  explicit Successor(Graph& graph) {
    const Dimension batch{"batch", 2}, length{"length", 4}, vocab{"vocab", 256};
    tokens = Input(graph, "tokens", kInt32, {batch, length});
    Tensor next = Cast(tokens, kFloat32) + 1.0;
    std::vector<double> numbers;
    for (int i = 0; i < 256; ++i) numbers.push_back(i);
    Tensor range = Constant(graph, numbers, kFloat32, {vocab});
    logits = Square(next - range) * -1.0;
  }
  Tensor tokens, logits;
};

TEST(SampleText, ReadsTheLogitsAtTheLastByte) {
  for (const char* layout : {"", "batch:data", "length:data", "vocab:data"}) {
    Graph graph;
    const Successor model(graph);
    auto session = Session::Create(graph, "data:2", layout);
    ASSERT_OK(session);
    // Longer than the model's window, so that the window slides.
    EXPECT_EQ(*SampleText(**session, model.tokens, model.logits,
                          {.prompt = "ab", .bytes = 8, .temperature = 0.01}),
              "abcdefghij");
  }
}

TEST(SampleText, AnEmptyPromptIsALineBreak) {
  Graph graph;
  const Successor model(graph);
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  EXPECT_EQ(*SampleText(**session, model.tokens, model.logits,
                        {.bytes = 2, .temperature = 0.01}),
            "\n\x0b\x0c");
}

TEST(SampleText, WrongOptionsAreErrors) {
  Graph graph;
  const Successor model(graph);
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  EXPECT_THAT(
      SampleText(**session, model.tokens, model.logits, {.temperature = 0}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("temperature")));
  EXPECT_THAT(SampleText(**session, model.tokens, model.tokens),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("[batch, length, vocab]")));
}

}  // namespace
}  // namespace mtf::train
