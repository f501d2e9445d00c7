// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "nn/adafactor.h"
#include "nn/adam.h"
#include "nn/sgd.h"
#include "ops/elementwise.h"
#include "ops/random.h"
#include "ops/reshape.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Dimension kIo{"io", 3};

// The loss sum(w^2 * c / 2), whose gradient is c * w: another one every step.
struct Bowl {
  OracleGraph o;
  const std::vector<double> start = {1.0, -2.0, 0.5};
  const std::vector<double> curvature = {1.0, 0.3, -2.0};
  Tensor w = o.Parameter("w", {kIo}, start);
  Tensor loss = ReduceSum(
      0.5 * Square(w) * Constant(o.graph, curvature, kFloat32, {kIo}), {});

  // Steps along with `update(i, w, gradient, t)`, t = 1 for the first.
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
      testing::ExpectNear(o.Value("w"), expected, 1e-9);
    }
  }
};

TEST(Sgd, Plain) {
  Bowl bowl;
  const Tensor step = nn::Sgd({.learning_rate = 0.1}).Minimize(bowl.loss);
  bowl.ExpectTrajectory(step,
                        [](int, double, double g, int) { return 0.1 * g; });
}

// The velocity moves the parameter in the step that makes it, not in the next.
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

TEST(Adam, CorrectsTheBias) {
  Bowl bowl;
  const Tensor step = nn::Adam({.learning_rate = 0.1}).Minimize(bowl.loss);
  std::vector<double> m(3, 0.0), v(3, 0.0);
  bowl.ExpectTrajectory(step, [&](int i, double, double g, int t) {
    m[i] = 0.9 * m[i] + 0.1 * g;
    v[i] = 0.999 * v[i] + 0.001 * g * g;
    const double m_hat = m[i] / (1 - std::pow(0.9, t));
    const double v_hat = v[i] / (1 - std::pow(0.999, t));
    return 0.1 * m_hat / (std::sqrt(v_hat) + 1e-8);
  });
}

TEST(AdamW, DecayIsDecoupled) {
  Bowl bowl;
  const Tensor step = nn::AdamW({.learning_rate = 0.1,
                                 .beta1 = 0.8,
                                 .beta2 = 0.95,
                                 .epsilon = 0.01,
                                 .weight_decay = 0.2})
                          .Minimize(bowl.loss);
  std::vector<double> m(3, 0.0), v(3, 0.0);
  bowl.ExpectTrajectory(step, [&](int i, double w, double g, int t) {
    m[i] = 0.8 * m[i] + 0.2 * g;
    v[i] = 0.95 * v[i] + 0.05 * g * g;
    const double m_hat = m[i] / (1 - std::pow(0.8, t));
    const double v_hat = v[i] / (1 - std::pow(0.95, t));
    return 0.1 * (m_hat / (std::sqrt(v_hat) + 0.01) + 0.2 * w);
  });
}

TEST(AdamW, DecaysWhatItIsTold) {
  OracleGraph o;
  const Tensor a = o.Parameter("a", {kIo}, {1, 1, 1});
  const Tensor b = o.Parameter("b", {}, {1});
  // No slope, so that only decay moves anything.
  const Tensor loss = ReduceSum(a, {}) * 0.0 + b * 0.0;
  const Tensor step = nn::AdamW({.learning_rate = 0.5,
                                 .weight_decay = 0.5,
                                 .decays =
                                     [](const VariableInfo& info) {
                                       return info.shape.rank() > 0;
                                     }})
                          .Minimize(loss);
  o.Run(step);
  testing::ExpectNear(o.Value("a"), {0.75, 0.75, 0.75});
  testing::ExpectNear(o.Value("b"), {1});
}

TEST(Adam, StateIsNamedAfterItsVariable) {
  Bowl bowl;
  nn::Adam().Minimize(bowl.loss);
  std::vector<std::string> names;
  for (const VariableInfo& info : bowl.o.graph.variables()) {
    names.push_back(info.name);
    if (info.name == "w") continue;
    EXPECT_EQ(info.kind, VariableKind::kOptimizerState) << info.name;
    EXPECT_FALSE(info.trainable) << info.name;
  }
  EXPECT_THAT(names, ElementsAre("w", "adam/step", "adam/w/m", "adam/w/v"));
}

TEST(Adam, UpdatesBelongToTheOptimizersSectionButGradientsDoNot) {
  Bowl bowl;
  const size_t forward = bowl.o.graph.operations().size();
  const int line = __LINE__ + 1;
  nn::Adam({.max_gradient_norm = 1.0}).Minimize(bowl.loss);
  const auto& operations = bowl.o.graph.operations();
  size_t first = forward;
  while (operations[first]->name() != "adam") ++first;
  ASSERT_GT(first, forward);
  for (size_t i = 0; i <= first; ++i) {
    EXPECT_EQ(operations[i]->section(), LayoutSection::kDefault)
        << operations[i]->name();
  }
  for (size_t i = first + 1; i < operations.size(); ++i) {
    EXPECT_EQ(operations[i]->section(), LayoutSection::kOptimizer)
        << operations[i]->name();
    EXPECT_EQ(operations[i]->call_site(),
              (CallSite{"optimizers_test.cc", line}))
        << operations[i]->name();
  }
}

TEST(Adam, Bf16ParametersHaveF32State) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kBFloat16, {kIo}));
  const Tensor step = nn::Adam().Minimize(ReduceSum(w * w, {}));
  ASSERT_OK(graph.status());
  ASSERT_TRUE(step.valid());
  EXPECT_EQ(graph.variables()[2].name, "adam/w/m");
  EXPECT_EQ(graph.variables()[2].dtype, kFloat32);
}

TEST(Adam, TwoInOneGraphCountForThemselves) {
  OracleGraph o;
  const Tensor a = o.Parameter("a", {}, {1.0});
  const Tensor b = o.Parameter("b", {}, {1.0});
  const nn::Adam adam({.learning_rate = 0.1});
  const Tensor step_a = adam.Minimize(a * 1.0);
  const Tensor step_b = adam.Minimize(b * 1.0);
  ASSERT_OK(o.graph.status());
  for (int i = 0; i < 5; ++i) o.Run(step_a);
  // A constant slope: every corrected update is the learning rate.
  EXPECT_NEAR(o.Value("a")[0], 0.5, 1e-6);
  EXPECT_EQ(o.Value("b")[0], 1.0);
  o.Run(step_b);
  EXPECT_NEAR(o.Value("b")[0], 0.9, 1e-6);
  EXPECT_EQ(o.Value("adam/step")[0], 5);
  EXPECT_EQ(o.Value("adam_1/step")[0], 1);
}

TEST(Minimize, LeavesAloneWhatTheLossDoesNotSee) {
  OracleGraph o;
  const Tensor w = o.Parameter("w", {}, {1.0});
  o.Parameter("other", {}, {1.0});
  const Tensor fixed = Variable(o.graph, "fixed", Ones(o.graph, kFloat32, {}),
                                {.trainable = false});
  o.variables["fixed"] = {{}, kFloat32, {2.0}};
  const Tensor step = nn::Sgd({.learning_rate = 0.1}).Minimize(w * fixed);
  o.Run(step);
  EXPECT_NEAR(o.Value("w")[0], 0.8, 1e-9);
  EXPECT_EQ(o.Value("other")[0], 1);
  EXPECT_EQ(o.Value("fixed")[0], 2);
}

TEST(Apply, TakesGradientsOfAnyOrigin) {
  OracleGraph o;
  const Dimension out{"out", 2};
  const Tensor w = o.Parameter("w", {kIo, out}, {1, 2, 3, 4, 5, 6});
  const Tensor unused = o.Parameter("unused", {}, {1.0});
  const Tensor g = Constant(o.graph, {1, 2, 3, 4, 5, 6}, kFloat32, {out, kIo});
  const Tensor step =
      nn::Sgd({.learning_rate = 1.0}).Apply({g, Tensor()}, {w, unused});
  o.Run(step);
  // Dimensions meet by name: row-major [out, io] against [io, out].
  testing::ExpectNear(o.Value("w"), {0, -2, 1, -1, 2, 0});
  EXPECT_EQ(o.Value("unused")[0], 1);
}

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

TEST(Adafactor, WholeWithMomentumAndARateOfItsOwn) {
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
              ElementsAre("adafactor/step ", "adafactor/big/vr a:128, b:2",
                          "adafactor/big/vc b:2, c:130",
                          "adafactor/small/v b:2, c:130, d:127"));
}

TEST(OptimizerErrors, ALossThatIsNoScalar) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  const int line = __LINE__ + 1;
  nn::AdamW().Minimize(Square(w));
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(absl::StrCat("the loss \"square\" is no float "
                                              "scalar (adamw, "
                                              "optimizers_test.cc:",
                                              line, ")"))));
}

TEST(OptimizerErrors, NothingToTrain) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {});
  nn::Sgd().Minimize(x);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the loss \"x\" depends on no trainable "
                                 "parameter (sgd, optimizers_test.cc:")));
}

TEST(OptimizerErrors, AnEarlierErrorIsTheOneThatIsTold) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  const Tensor loss = ReduceSum(w, {{"absent", 1}});
  nn::Sgd().Minimize(ReduceSum(loss, {}));
  EXPECT_THAT(graph.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("\"absent\"")));
}

TEST(OptimizerErrors, FewerGradientsThanVariables) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  nn::Sgd().Apply({}, {w});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("0 gradients for 1 variables (sgd, "
                                 "optimizers_test.cc:")));
}

TEST(OptimizerErrors, AGradientOfAnotherShape) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  nn::Sgd().Apply({Zeros(graph, kFloat32, {})}, {w});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has not the shape of variable \"w\" (sgd, "
                                 "optimizers_test.cc:")));
}

TEST(OptimizerErrors, WhatIsNoVariable) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  nn::Sgd().Apply({w}, {Square(w)});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"square\" is no float variable")));
}

TEST(OptimizerErrors, AVariableTwice) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  nn::Sgd().Apply({w, w}, {w, w});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("variable \"w\" is listed twice")));
}

}  // namespace
}  // namespace mtf
