// SPDX-License-Identifier: Apache-2.0
//
// Gradients of several steps for one update (accumulate_steps).
#include "nn/optimizers/accumulate.h"

#include <limits>
#include <string>
#include <vector>

#include "nn/layers/dense.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;

constexpr int kParts = 3;

// A network on a batch of `rows` rows.
struct Network {
  const Dimension batch, io{"io", 3};
  OracleGraph o;
  Tensor step;

  Network(int rows, const nn::Optimizer& optimizer) : batch{"batch", rows} {
    const Tensor x = Input(o.graph, "x", kFloat32, {batch, io});
    const Tensor y = nn::Dense(x, {io}, {io}, {.activation = Tanh});
    step = optimizer.Minimize(ReduceMean(Square(y - 1.0), {}));
    EXPECT_OK(o.graph.status());
  }
  // A step on the rows from `first` on of an endless data set.
  void Step(int first) {
    const std::vector<double> all = testing::SomeNumbers(300, 5);
    const auto begin = all.begin() + first * 3;
    o.feeds["x"] = HostTensor::FromDoubles(
        {batch, io}, kFloat32,
        std::vector<double>(begin, begin + batch.size * 3));
    o.Run(step);
  }
};

// With clipping, a schedule and moments, which see updates only.
TEST(AccumulateSteps, EqualsALargeBatch) {
  nn::AdamWOptions options = {
      .learning_rate = 0.1 * nn::LinearWarmup(3) * nn::LinearDecay(3, 6),
      .max_gradient_norm = 0.05,
      .average_decay = 0.5};
  Network large(2 * kParts, nn::AdamW(options));
  options.accumulate_steps = kParts;
  Network small(2, nn::AdamW(options));
  for (Network* network : {&large, &small}) {
    ASSERT_OK(InitializeVariables(network->o.graph, 3, &network->o.variables));
  }
  for (int update = 0; update < 5; ++update) {
    large.Step(update * 2 * kParts);
    for (int part = 0; part < kParts; ++part) {
      small.Step((update * kParts + part) * 2);
    }
    SCOPED_TRACE(update);
    for (const VariableInfo& info : large.o.graph.variables()) {
      SCOPED_TRACE(info.name);
      testing::ExpectNear(small.o.Value(info.name), large.o.Value(info.name),
                          1e-9);
    }
  }
  EXPECT_EQ(small.o.Value("adamw/step")[0], 5);
}

// Steps that only add change nothing but the sums and their count.
TEST(AccumulateSteps, OtherStepsLeaveParametersAndStateAlone) {
  Network network(
      2, nn::AdamW({.accumulate_steps = kParts, .average_decay = 0.5}));
  for (int step = 0; step < 3 * kParts; ++step) {
    network.o.Fill();
    const OracleVariables before = network.o.variables;
    network.Step(step);
    const bool updates = step % kParts == kParts - 1;
    for (const auto& [name, value] : before) {
      if (name.ends_with("gradient_sum")) {
        EXPECT_EQ(network.o.Value(name) ==
                      std::vector<double>(value.data.size(), 0.0),
                  updates)
            << name;
      } else if (name == "adamw/accumulated") {
        EXPECT_EQ(network.o.Value(name)[0], (step + 1) % kParts);
      } else {
        EXPECT_EQ(network.o.Value(name) != value.data, updates) << name;
      }
    }
  }
}

// A step that overflows adds nothing, and does not count.
TEST(AccumulateSteps, SkipsStepsThatOverflow) {
  OracleGraph o;
  const Tensor w = o.Parameter("w", {}, {2.0});
  const Tensor x = Input(o.graph, "x", kFloat32, {});
  const Tensor loss = Cast(Cast(w, kFloat16) * Cast(x, kFloat16), kFloat32);
  const Tensor step = nn::Sgd({.learning_rate = 0.5,
                               .accumulate_steps = 2,
                               .loss_scale = {.initial = 1024}})
                          .Minimize(loss);
  ASSERT_OK(o.graph.status());
  o.variables["sgd/loss_scale"] = {{}, kFloat32, {1024.0}};
  const float infinity = std::numeric_limits<float>::infinity();
  const auto run = [&](float value) {
    o.feeds["x"] = HostTensor::Of<float>({}, {value});
    o.Run(step);
    return o.Value("w")[0];
  };
  EXPECT_EQ(run(1), 2);
  EXPECT_EQ(run(infinity), 2);
  EXPECT_EQ(o.Value("sgd/w/gradient_sum")[0], 1);
  EXPECT_EQ(o.Value("sgd/loss_scale")[0], 512);
  EXPECT_EQ(run(3), 2 - 0.5 * (1 + 3) / 2);
  EXPECT_EQ(run(infinity), 1);
  EXPECT_EQ(o.Value("sgd/w/gradient_sum")[0], 0);
}

}  // namespace
}  // namespace mtf
