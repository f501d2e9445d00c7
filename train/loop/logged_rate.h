// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_LOGGED_RATE_H_
#define TRAIN_LOOP_LOGGED_RATE_H_

#include <map>
#include <optional>
#include <string>

#include "nn/optimizers/schedules.h"

namespace mtf::train {

// `schedule`, whose value in each step the training loop writes to its logs as
// "learning_rate". It is a ScalarSummary in the scope of the optimizer.
//
//   nn::AdamW({.learning_rate = train::LoggedRate(3e-3 *
//   nn::CosineDecay(...))})
nn::Schedule LoggedRate(nn::Schedule schedule);

// Removes the value of a LoggedRate from the summaries of a step and returns
// it. Empty if there is none; of several optimizers, each remains a summary.
std::optional<double> TakeLearningRate(
    std::map<std::string, double>& summaries);

}  // namespace mtf::train

#endif  // TRAIN_LOOP_LOGGED_RATE_H_
