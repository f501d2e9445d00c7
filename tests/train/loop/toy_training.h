// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_TRAIN_LOOP_TOY_TRAINING_H_
#define TESTS_TRAIN_LOOP_TOY_TRAINING_H_

#include <cstdint>
#include <map>
#include <string>

#include "nn/optimizers/sgd.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "train/loop/trainer.h"

namespace mtf::train {

// A single parameter that converges to 3, and diverges for learning rates
// over 1.
struct Toy {
  explicit Toy(Graph& graph, double learning_rate,
               bool skip_non_finite = false) {
    const Dimension batch{"batch", 4};
    Tensor goal = Input(graph, "goal", kFloat32, {batch});
    Tensor guess = Variable(graph, "guess", Zeros(graph, kFloat32, {}));
    training.loss = ReduceMean(Square(guess - goal), {});
    training.update = nn::Sgd({.learning_rate = learning_rate,
                               .skip_non_finite = skip_non_finite})
                          .Minimize(training.loss);
    training.tokens_per_step = 4;
    training.feeds = [batch](int64_t) {
      return std::map<std::string, HostTensor>{
          {"goal", HostTensor::FromDoubles({batch}, kFloat32, {3, 3, 3, 3})}};
    };
  }
  Training training;
};

}  // namespace mtf::train

#endif  // TESTS_TRAIN_LOOP_TOY_TRAINING_H_
