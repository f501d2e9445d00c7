// SPDX-License-Identifier: Apache-2.0
//
// Twenty steps of each optimizer equal those of PyTorch, or of the formulas of
// its paper (tests/fixtures/optimizers.py).
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/optimizers/adafactor.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/lamb.h"
#include "nn/optimizers/lion.h"
#include "nn/optimizers/muon.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/fixtures.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::FixtureTensor;
using ::mtf::testing::OracleGraph;

constexpr int kSteps = 20;
constexpr double kTolerance = 1e-5;

// The kernel "w", the bias "b" and the loss of the fixture.
struct Quadratic {
  const std::map<std::string, FixtureTensor> torch =
      testing::ReadFixture("optimizers");
  const Dimension in{"in", 3}, out{"out", 5};
  OracleGraph o;
  const Tensor w = Parameter("w", {in, out}, 1);
  const Tensor b = Parameter("b", {out}, 0);
  const Tensor loss = TermOf("w", w) + TermOf("b", b);

  void ExpectEqual(const std::string& variable, const std::string& fixture) {
    SCOPED_TRACE(fixture);
    testing::ExpectNear(o.Value(variable), torch.at(fixture).values,
                        kTolerance);
  }

 private:
  Tensor Parameter(const std::string& name, Shape shape, int fan_in_dims) {
    const Tensor x = Variable(o.graph, name, Zeros(o.graph, kFloat32, shape),
                              {.kernel = {.fan_in = fan_in_dims}});
    o.variables[name] = {shape, kFloat32,
                         torch.at(absl::StrCat("start/", name)).values};
    return x;
  }
  Tensor TermOf(const std::string& name, Tensor x) {
    const Tensor curvature =
        Constant(o.graph, torch.at(absl::StrCat("curvature/", name)).values,
                 kFloat32, x.shape());
    return ReduceSum(0.5 * curvature * Square(x), {});
  }
};

struct TorchCase {
  const char* name;
  nn::Optimizer optimizer;
  friend void PrintTo(const TorchCase& c, std::ostream* out) { *out << c.name; }
};

std::vector<TorchCase> Cases() {
  nn::MuonOptions muon = {.learning_rate = 0.02, .match_adam = false};
  nn::MuonOptions muon_as_adam = {.learning_rate = 0.02};
  return {
      {"sgd", nn::Sgd({.learning_rate = 0.05,
                       .momentum = 0.9,
                       .dampening = 0.3,
                       .weight_decay = 0.02})},
      {"nesterov", nn::Sgd({.learning_rate = 0.05,
                            .momentum = 0.9,
                            .nesterov = true,
                            .weight_decay = 0.02})},
      {"adam", nn::Adam({.learning_rate = 0.05,
                         .beta1 = 0.8,
                         .beta2 = 0.95,
                         .epsilon = 1e-3})},
      {"adamw", nn::AdamW({.learning_rate = 0.05,
                           .beta1 = 0.8,
                           .beta2 = 0.95,
                           .weight_decay = 0.1})},
      {"groups", nn::AdamW({.learning_rate = 0.05,
                            .weight_decay = 0.3,
                            .groups = {{.parameters = "*", .weight_decay = 0},
                                       {.parameters = "b",
                                        .learning_rate = 0.01,
                                        .weight_decay = 0.3}}})},
      {"adafactor", nn::Adafactor({.learning_rate = 0.1,
                                   .weight_decay = 0.05,
                                   .min_factored_size = 0})},
      {"muon", nn::Muon(muon)},
      {"muon_as_adam", nn::Muon(muon_as_adam)},
      {"lion", nn::Lion({.learning_rate = 0.01, .weight_decay = 0.2})},
      {"lamb", nn::Lamb({.learning_rate = 0.02,
                         .beta2 = 0.99,
                         .weight_decay = 0.1,
                         .without_trust_ratio = {"b"},
                         .groups = {{.parameters = "b", .weight_decay = 0}}})},
  };
}

class EqualsTorch : public ::testing::TestWithParam<TorchCase> {};

TEST_P(EqualsTorch, After20Steps) {
  Quadratic f;
  const Tensor step = GetParam().optimizer.Minimize(f.loss);
  ASSERT_OK(f.o.graph.status());
  for (int i = 0; i < kSteps; ++i) f.o.Run(step);
  f.ExpectEqual("w", absl::StrCat(GetParam().name, "/w"));
  f.ExpectEqual("b", absl::StrCat(GetParam().name, "/b"));
}

INSTANTIATE_TEST_SUITE_P(All, EqualsTorch, ::testing::ValuesIn(Cases()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(MovingAverage, EqualsTorch) {
  Quadratic f;
  const Tensor step =
      nn::Sgd({.learning_rate = 0.1, .average_decay = 0.9}).Minimize(f.loss);
  ASSERT_OK(f.o.graph.status());
  for (const char* name : {"w", "b"}) {
    f.o.variables[absl::StrCat("sgd/", name, "/average")] = f.o.variables[name];
  }
  for (int i = 0; i < kSteps; ++i) f.o.Run(step);
  f.ExpectEqual("sgd/w/average", "average/w");
  f.ExpectEqual("sgd/b/average", "average/b");
}

}  // namespace
}  // namespace mtf
