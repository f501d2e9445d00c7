// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "nn/adam.h"
#include "nn/sgd.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kIo{"io", 3};

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

TEST(OptimizerErrors, ALossThatIsNoScalar) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  const int line = __LINE__ + 1;
  nn::AdamW().Minimize(Square(w));
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(absl::StrCat("the loss \"square\" is no float "
                                              "scalar (adamw, "
                                              "optimizer_test.cc:",
                                              line, ")"))));
}

TEST(OptimizerErrors, NothingToTrain) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {});
  nn::Sgd().Minimize(x);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the loss \"x\" depends on no trainable "
                                 "parameter (sgd, optimizer_test.cc:")));
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
                                 "optimizer_test.cc:")));
}

TEST(OptimizerErrors, AGradientOfAnotherShape) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  nn::Sgd().Apply({Zeros(graph, kFloat32, {})}, {w});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has not the shape of variable \"w\" (sgd, "
                                 "optimizer_test.cc:")));
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
