// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/adafactor.h"

#include "absl/strings/str_cat.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::testing::ElementsAre;

const Dimension kIo{"io", 3};

// Follows algorithm 4 of the paper over a matrix [io, out] in plain loops.
struct Matrix {
  static constexpr int kRows = 3, kColumns = 4;
  OracleGraph o;
  const Dimension columns{"out", kColumns};
  const std::vector<double> start = testing::SomeNumbers(12, 1);
  const std::vector<double> curvature = testing::SomeNumbers(12, 2);
  Tensor w = o.Parameter("w", {kIo, columns}, start);
  Tensor loss = ReduceSum(
      0.5 * Square(w) * Constant(o.graph, curvature, kFloat32, {kIo, columns}),
      {});
};

double RmsOf(const std::vector<double>& x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

TEST(Adafactor, FactoredFollowsThePaper) {
  Matrix f;
  const Tensor step = nn::Adafactor({.min_factored_size = 2}).Minimize(f.loss);
  ASSERT_OK(f.o.graph.status());
  constexpr int kR = Matrix::kRows, kC = Matrix::kColumns;
  std::vector<double> w = f.start, row(kR, 0.0), column(kC, 0.0);
  for (int t = 1; t <= 5; ++t) {
    const double beta2 = 1 - std::pow(t, -0.8);
    std::vector<double> g(12);
    for (int i = 0; i < 12; ++i) g[i] = f.curvature[i] * w[i];
    for (int r = 0; r < kR; ++r) {
      double mean = 0;
      for (int c = 0; c < kC; ++c) {
        mean += (g[r * kC + c] * g[r * kC + c] + 1e-30) / kC;
      }
      row[r] = beta2 * row[r] + (1 - beta2) * mean;
    }
    for (int c = 0; c < kC; ++c) {
      double mean = 0;
      for (int r = 0; r < kR; ++r) {
        mean += (g[r * kC + c] * g[r * kC + c] + 1e-30) / kR;
      }
      column[c] = beta2 * column[c] + (1 - beta2) * mean;
    }
    double mean = 0;
    for (int r = 0; r < kR; ++r) mean += row[r] / kR;
    std::vector<double> u(12);
    for (int r = 0; r < kR; ++r) {
      for (int c = 0; c < kC; ++c) {
        u[r * kC + c] = g[r * kC + c] / std::sqrt(row[r] * column[c] / mean);
      }
    }
    const double rate = std::min(0.01, 1 / std::sqrt(t)) *
                        std::max(1e-3, RmsOf(w)) / std::max(1.0, RmsOf(u));
    for (int i = 0; i < 12; ++i) w[i] -= rate * u[i];
    f.o.Run(step);
    SCOPED_TRACE(t);
    testing::ExpectNear(f.o.Value("w"), w, 1e-9);
  }
  testing::ExpectNear(f.o.Value("adafactor/w/vr"), row, 1e-9);
  testing::ExpectNear(f.o.Value("adafactor/w/vc"), column, 1e-9);
}

TEST(Adafactor, UnfactoredWithMomentumAndRelativeStep) {
  Matrix f;
  const Tensor step = nn::Adafactor({.learning_rate = 0.1,
                                     .multiply_by_parameter_scale = false,
                                     .beta1 = 0.5,
                                     .clipping_threshold = 0.75})
                          .Minimize(f.loss);
  ASSERT_OK(f.o.graph.status());
  std::vector<double> w = f.start, v(12, 0.0), m(12, 0.0);
  for (int t = 1; t <= 5; ++t) {
    const double beta2 = 1 - std::pow(t, -0.8);
    std::vector<double> u(12);
    for (int i = 0; i < 12; ++i) {
      const double g = f.curvature[i] * w[i];
      v[i] = beta2 * v[i] + (1 - beta2) * (g * g + 1e-30);
      u[i] = g / std::sqrt(v[i]);
    }
    const double clip = std::max(1.0, RmsOf(u) / 0.75);
    for (int i = 0; i < 12; ++i) {
      m[i] = 0.5 * m[i] + 0.5 * 0.1 * u[i] / clip;
      w[i] -= m[i];
    }
    f.o.Run(step);
    SCOPED_TRACE(t);
    testing::ExpectNear(f.o.Value("w"), w, 1e-9);
  }
}

// The decay of Adam's corrected moment.
TEST(Adafactor, DecaysAsAdam) {
  Matrix f;
  const Tensor step = nn::Adafactor({.learning_rate = 0.1,
                                     .multiply_by_parameter_scale = false,
                                     .beta2 = 0.9,
                                     .clipping_threshold = 0})
                          .Minimize(f.loss);
  ASSERT_OK(f.o.graph.status());
  std::vector<double> w = f.start, v(12, 0.0);
  for (int t = 1; t <= 5; ++t) {
    for (int i = 0; i < 12; ++i) {
      const double g = f.curvature[i] * w[i];
      v[i] = 0.9 * v[i] + 0.1 * g * g;
      w[i] -= 0.1 * g / std::sqrt(v[i] / (1 - std::pow(0.9, t)));
    }
    f.o.Run(step);
    SCOPED_TRACE(t);
    testing::ExpectNear(f.o.Value("w"), w, 1e-9);
  }
}

// A stack of two parameters is updated as each of them by itself.
TEST(Adafactor, StackedParametersAreIndependent) {
  const Dimension stack{"stack", 2}, in{"in", 4}, out{"out", 3};
  nn::AdafactorOptions options = {.min_factored_size = 2};
  OracleGraph apart, stacked;
  const std::vector<double> numbers = testing::SomeNumbers(24, 6);
  const std::vector<double> first(numbers.begin(), numbers.begin() + 12);
  std::vector<double> second(numbers.begin() + 12, numbers.end());
  for (double& x : second) x *= 10;  // another scale
  std::vector<double> both = first;
  both.insert(both.end(), second.begin(), second.end());
  const auto loss = [](Tensor x) { return ReduceSum(Square(x) * x, {}); };
  const Tensor step = nn::Adafactor(options).Minimize(
      loss(apart.Parameter("a", {in, out}, first)) +
      loss(apart.Parameter("b", {in, out}, second)));
  options.stacked = {"stack"};
  const Tensor stacked_step = nn::Adafactor(options).Minimize(
      loss(stacked.Parameter("w", {stack, in, out}, both)));
  for (int t = 0; t < 3; ++t) {
    apart.Run(step);
    stacked.Run(stacked_step);
  }
  std::vector<double> expected = apart.Value("a");
  expected.insert(expected.end(), apart.Value("b").begin(),
                  apart.Value("b").end());
  testing::ExpectNear(stacked.Value("w"), expected, 1e-9);
}

TEST(Adafactor, ExclusionsByName) {
  OracleGraph o;
  const Dimension a{"a", 4}, b{"b", 5};
  const Tensor w = o.Parameter("w", {a, b}), v = o.Parameter("v", {a, b}),
               s = o.Parameter("s", {}, {4.0});
  const Tensor step = nn::Adafactor({.learning_rate = 0.5,
                                     .min_factored_size = 0,
                                     .unfactored = {"v"},
                                     .unscaled = {"s"}})
                          .Minimize(ReduceSum(w, {}) + ReduceSum(v, {}) + s);
  ASSERT_OK(o.graph.status());
  std::vector<std::string> state;
  for (const VariableInfo& info : o.graph.variables()) {
    if (info.kind == VariableKind::kOptimizerState) state.push_back(info.name);
  }
  EXPECT_THAT(state,
              ElementsAre("adafactor/step", "adafactor/w/vr", "adafactor/w/vc",
                          "adafactor/v/v", "adafactor/s/v"));
  o.Run(step);
  EXPECT_NEAR(o.Value("s")[0], 3.5, 1e-9);
}

TEST(Adafactor, FactorsTheTwoLargestDimensions) {
  OracleGraph o;
  const Dimension a{"a", 128}, b{"b", 2}, c{"c", 130}, d{"d", 127};
  const Tensor big = o.Parameter("big", {a, b, c});
  const Tensor small = o.Parameter("small", {b, c, d});
  nn::Adafactor().Minimize(ReduceSum(big, {}) + ReduceSum(small, {}));
  ASSERT_OK(o.graph.status());
  std::vector<std::string> state;
  for (const VariableInfo& info : o.graph.variables()) {
    if (info.kind != VariableKind::kOptimizerState) continue;
    state.push_back(absl::StrCat(info.name, " ", info.shape.ToString()));
  }
  EXPECT_THAT(state,
              ElementsAre("adafactor/step ", "adafactor/big/vr a=128, b=2",
                          "adafactor/big/vc b=2, c=130",
                          "adafactor/small/v b=2, c=130, d=127"));
}

}  // namespace
}  // namespace mtf
