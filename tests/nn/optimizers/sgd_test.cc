// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/sgd.h"

#include "tests/nn/optimizers/bowl.h"

namespace mtf {
namespace {

using ::mtf::testing::Bowl;

TEST(Sgd, Plain) {
  Bowl bowl;
  const Tensor step = nn::Sgd({.learning_rate = 0.1}).Minimize(bowl.loss);
  bowl.ExpectTrajectory(step,
                        [](int, double, double g, int) { return 0.1 * g; });
}

// The update of a step uses the velocity of that step, not of the previous one.
TEST(Sgd, Momentum) {
  Bowl bowl;
  const Tensor step =
      nn::Sgd({.learning_rate = 0.1, .momentum = 0.9}).Minimize(bowl.loss);
  std::vector<double> v(3, 0.0);
  bowl.ExpectTrajectory(step, [&](int i, double, double g, int) {
    v[i] = 0.9 * v[i] + g;
    return 0.1 * v[i];
  });
}

TEST(Sgd, NesterovAndWeightDecay) {
  Bowl bowl;
  const Tensor step = nn::Sgd({.learning_rate = 0.1,
                               .momentum = 0.8,
                               .nesterov = true,
                               .weight_decay = 0.05})
                          .Minimize(bowl.loss);
  std::vector<double> v(3, 0.0);
  bowl.ExpectTrajectory(step, [&](int i, double w, double g, int) {
    g += 0.05 * w;
    v[i] = 0.8 * v[i] + g;
    return 0.1 * (g + 0.8 * v[i]);
  });
}

}  // namespace
}  // namespace mtf
