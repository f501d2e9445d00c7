// SPDX-License-Identifier: Apache-2.0
#include "train/loop/trainer.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/optimizers/sgd.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "train/loop/metrics.h"
#include "train/loop/text_sampler.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A single parameter that converges to 3, and diverges for learning rates
// over 1.
struct Toy {
  explicit Toy(Graph& graph, double learning_rate) {
    const Dimension batch{"batch", 4};
    Tensor goal = Input(graph, "goal", kFloat32, {batch});
    Tensor guess = Variable(graph, "guess", Zeros(graph, kFloat32, {}));
    training.loss = ReduceMean(Square(guess - goal), {});
    training.update =
        nn::Sgd({.learning_rate = learning_rate}).Minimize(training.loss);
    training.tokens_per_step = 4;
    training.feeds = [batch](int64_t) {
      return std::map<std::string, HostTensor>{
          {"goal", HostTensor::FromDoubles({batch}, kFloat32, {3, 3, 3, 3})}};
    };
  }
  Training training;
};

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
