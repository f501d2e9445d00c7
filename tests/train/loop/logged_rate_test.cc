// SPDX-License-Identifier: Apache-2.0
#include "train/loop/logged_rate.h"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/optimizers/schedules.h"
#include "nn/optimizers/sgd.h"
#include "ops/observe.h"
#include "tests/matchers.h"
#include "tests/run_command.h"
#include "tests/train/loop/toy_training.h"
#include "train/loop/event_file.h"
#include "train/loop/metrics.h"
#include "train/loop/trainer.h"

namespace mtf::train {
namespace {

TEST(LoggedRate, IsInTheLogs) {
  Graph graph;
  Toy toy(graph, 0.1);
  toy.training.update =
      nn::Sgd({.learning_rate = LoggedRate(0.2 * nn::LinearWarmup(4))})
          .Minimize(toy.training.loss);
  ScalarSummary("loss_copy", toy.training.loss);
  toy.training.steps = 6;
  toy.training.log_json = ::mtf::testing::Temporary("rates.json");
  toy.training.events = ::mtf::testing::Temporary("rates");
  auto session = Session::Create(graph, "data:2", "batch:data");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  ASSERT_OK(Train(**session, toy.training));
  const auto steps = ReadMetrics(toy.training.log_json);
  ASSERT_OK(steps);
  const std::vector<double> rates = {0.05, 0.1, 0.15, 0.2, 0.2, 0.2};
  ASSERT_EQ(steps->size(), rates.size());
  for (size_t i = 0; i < rates.size(); ++i) {
    ASSERT_TRUE((*steps)[i].learning_rate.has_value());
    EXPECT_NEAR(*(*steps)[i].learning_rate, rates[i], 1e-7);
  }
  std::vector<double> events;
  for (const auto& file :
       std::filesystem::directory_iterator(toy.training.events)) {
    const auto read = ReadEvents(file.path().string());
    ASSERT_OK(read);
    for (const Event& event : *read) {
      const auto rate = event.scalars.find("learning_rate");
      if (rate != event.scalars.end()) events.push_back(rate->second);
    }
  }
  EXPECT_THAT(events, ::testing::Pointwise(::testing::DoubleNear(1e-7), rates));
  std::filesystem::remove_all(toy.training.events);
  std::filesystem::remove(toy.training.log_json);
}

TEST(TakeLearningRate, TakesTheOnlyOne) {
  std::map<std::string, double> one = {{"sgd/learning_rate", 0.5}, {"norm", 2}};
  EXPECT_EQ(TakeLearningRate(one), 0.5);
  EXPECT_EQ(one.size(), 1u);
  EXPECT_EQ(TakeLearningRate(one), std::nullopt);
  std::map<std::string, double> two = {{"adamw/learning_rate", 0.5},
                                       {"sgd/learning_rate", 2}};
  EXPECT_EQ(TakeLearningRate(two), std::nullopt);
  EXPECT_EQ(two.size(), 2u);
}

}  // namespace
}  // namespace mtf::train
