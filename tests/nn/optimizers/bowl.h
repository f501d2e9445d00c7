// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_NN_OPTIMIZERS_BOWL_H_
#define TESTS_NN_OPTIMIZERS_BOWL_H_

#include <vector>

#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/nn/oracle.h"

namespace mtf::testing {

inline const Dimension& kIo = *new Dimension{"io", 3};

// The loss sum(w^2 * c / 2), whose gradient c * w differs in every step.
struct Bowl {
  OracleGraph o;
  const std::vector<double> start = {1.0, -2.0, 0.5};
  const std::vector<double> curvature = {1.0, 0.3, -2.0};
  Tensor w = o.Parameter("w", {kIo}, start);
  Tensor loss = ReduceSum(
      0.5 * Square(w) * Constant(o.graph, curvature, kFloat32, {kIo}), {});

  // Follows the steps with update(i, w, gradient, t), where t is 1 for the
  // first.
  template <class Update>
  void ExpectTrajectory(Tensor step, const Update& update, int steps = 6) {
    ASSERT_OK(o.graph.status());
    std::vector<double> expected = start;
    for (int t = 1; t <= steps; ++t) {
      o.Run(step);
      for (int i = 0; i < 3; ++i) {
        expected[i] -= update(i, expected[i], curvature[i] * expected[i], t);
      }
      SCOPED_TRACE(t);
      ExpectNear(o.Value("w"), expected, 1e-9);
    }
  }
};

}  // namespace mtf::testing

#endif  // TESTS_NN_OPTIMIZERS_BOWL_H_
