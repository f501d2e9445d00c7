// SPDX-License-Identifier: Apache-2.0
//
// Steps that train adapters or prompts of a ModelFixture.
#ifndef TESTS_TRAIN_WEIGHTS_FINE_TUNING_H_
#define TESTS_TRAIN_WEIGHTS_FINE_TUNING_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nn/optimizers/adam.h"
#include "tests/matchers.h"
#include "tests/train/weights/model_fixture.h"

namespace mtf::train {

struct FineTuningPlace {
  const char *mesh, *layout;
};
inline constexpr FineTuningPlace kFineTuningPlaces[] = {
    {"data:1", "single"},
    {"model:2", "megatron"},
    {"data:2,model:2", "data_model"},
    {"data:3", "zero3"}};

// Makes B different from 0 in a few steps.
inline Tensor TrainAdapters(ModelFixture& fixture,
                            const std::string& only = "**/adapter") {
  return nn::AdamW({.learning_rate = 0.01})
      .Minimize(fixture.model().objective, {.only = only});
}

// The losses of 20 steps.
inline std::vector<double> TrainSteps(ModelFixture& fixture, Session& session,
                                      Tensor step, int steps = 20) {
  std::vector<double> losses;
  const RunRequest request = {.feeds = fixture.Feeds(),
                              .fetches = {fixture.model().loss},
                              .updates = {step}};
  for (int i = 0; i < steps; ++i) {
    const auto values = session.Run(request);
    EXPECT_OK(values);
    if (!values.ok()) break;
    losses.push_back((*values)[0].ToDoubles()[0]);
  }
  return losses;
}

inline std::vector<double> LogitsOf(ModelFixture& fixture, Session& session) {
  const auto values = session.Run(
      {.feeds = fixture.Feeds(), .fetches = {fixture.model().logits}});
  EXPECT_OK(values);
  return values.ok() ? (*values)[0].ToDoubles() : std::vector<double>();
}

inline double GreatestDifference(const std::vector<double>& a,
                                 const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double greatest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    greatest = std::max(greatest, std::abs(a[i] - b[i]));
  }
  return greatest;
}

}  // namespace mtf::train

#endif  // TESTS_TRAIN_WEIGHTS_FINE_TUNING_H_
