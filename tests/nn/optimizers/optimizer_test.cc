// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/optimizer.h"

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nn/layers/parameter.h"
#include "nn/optimizers/adafactor.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/lamb.h"
#include "nn/optimizers/lion.h"
#include "nn/optimizers/muon.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "tests/nn/optimizers/bowl.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const Dimension kIo{"io", 3};

TEST(Minimize, SkipsParametersTheLossDoesNotDependOn) {
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
  // Dimensions are matched by name: row-major [out, io] and [io, out].
  testing::ExpectNear(o.Value("w"), {0, -2, 1, -1, 2, 0});
  EXPECT_EQ(o.Value("unused")[0], 1);
}

TEST(OptimizerErrors, LossThatIsNotAScalar) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  const int line = __LINE__ + 1;
  nn::AdamW().Minimize(Square(w));
  EXPECT_THAT(
      graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr(absl::StrCat("the loss \"square\" is not a float "
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

TEST(OptimizerErrors, EarlierErrorIsReported) {
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
  EXPECT_THAT(
      graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("does not have the shape of variable \"w\" (sgd, "
                         "optimizer_test.cc:")));
}

TEST(OptimizerErrors, NotAVariable) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  nn::Sgd().Apply({w}, {Square(w)});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"square\" is not a float variable")));
}

TEST(OptimizerErrors, AVariableTwice) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Zeros(graph, kFloat32, {kIo}));
  nn::Sgd().Apply({w, w}, {w, w});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("variable \"w\" is listed twice")));
}

// A wrong option and its error.
struct WrongOption {
  const char* name;
  std::function<void(Tensor loss)> minimize;
  const char* words;
  friend void PrintTo(const WrongOption& o, std::ostream* out) {
    *out << o.name;
  }
};

class WrongOptionTest : public ::testing::TestWithParam<WrongOption> {};

TEST_P(WrongOptionTest, IsAnError) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {kIo}));
  GetParam().minimize(ReduceSum(Square(w), {}));
  EXPECT_THAT(graph.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr(GetParam().words)));
  EXPECT_THAT(graph.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr(", optimizer_test.cc:")));
}

const double kNaN = std::nan("");
const double kInfinity = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    All, WrongOptionTest,
    ::testing::Values(
        WrongOption{"SgdMomentum",
                    [](Tensor l) { nn::Sgd({.momentum = 1}).Minimize(l); },
                    ".momentum is 1, not in [0, 1) (sgd, "},
        WrongOption{
            "SgdMomentumOfAlmostOne",
            [](Tensor l) { nn::Sgd({.momentum = 1 - 1e-12}).Minimize(l); },
            ".momentum is 1, not in [0, 1) (sgd, "},
        WrongOption{
            "SgdDecay",
            [](Tensor l) { nn::Sgd({.weight_decay = -1}).Minimize(l); },
            ".weight_decay is -1, not a non-negative number of f32 (sgd"},
        WrongOption{
            "SgdNorm",
            [](Tensor l) {
              nn::Sgd({.max_gradient_norm = kInfinity}).Minimize(l);
            },
            ".max_gradient_norm is inf, not a non-negative number of f32"},
        WrongOption{"SgdNesterovWithoutMomentum",
                    [](Tensor l) { nn::Sgd({.nesterov = true}).Minimize(l); },
                    "without .momentum, .nesterov and .dampening have no "
                    "effect (sgd, "},
        WrongOption{"SgdNesterovWithDampening",
                    [](Tensor l) {
                      nn::Sgd(
                          {.momentum = 0.5, .dampening = 0.5, .nesterov = true})
                          .Minimize(l);
                    },
                    "momentum of Nesterov (.nesterov) has no .dampening (sgd"},
        WrongOption{"LionBeta2",
                    [](Tensor l) { nn::Lion({.beta2 = 1}).Minimize(l); },
                    ".beta2 is 1, not in [0, 1) (lion, "},
        WrongOption{"LambEpsilon",
                    [](Tensor l) { nn::Lamb({.epsilon = 0}).Minimize(l); },
                    ".epsilon is 0, not a positive number of f32 (lamb, "},
        WrongOption{"MuonMomentum",
                    [](Tensor l) { nn::Muon({.momentum = 1}).Minimize(l); },
                    ".momentum is 1, not in [0, 1) (muon, "},
        WrongOption{"MuonIterations",
                    [](Tensor l) { nn::Muon({.iterations = 0}).Minimize(l); },
                    ".iterations is 0, not in [1, 100] (muon, "},
        WrongOption{"MuonAdam",
                    [](Tensor l) { nn::Muon({.adam_beta2 = 1}).Minimize(l); },
                    ".adam_beta2 is 1, not in [0, 1) (muon, "},
        WrongOption{"SgdName",
                    [](Tensor l) { nn::Sgd({.name = "a\nb"}).Minimize(l); },
                    "the name \"a\\nb\" of a layer or scope has a control "
                    "character (scope, "},
        WrongOption{"AdamBeta1",
                    [](Tensor l) { nn::Adam({.beta1 = -0.1}).Minimize(l); },
                    ".beta1 is -0.1, not in [0, 1) (adam, "},
        WrongOption{"AdamBeta2",
                    [](Tensor l) { nn::Adam({.beta2 = kNaN}).Minimize(l); },
                    ".beta2 is nan, not in [0, 1) (adam, "},
        WrongOption{"AdamEpsilon",
                    [](Tensor l) { nn::Adam({.epsilon = 0}).Minimize(l); },
                    ".epsilon is 0, not a positive number of f32 (adam, "},
        WrongOption{"AdamWDecay",
                    [](Tensor l) {
                      nn::AdamW({.weight_decay = kInfinity}).Minimize(l);
                    },
                    ".weight_decay is inf, not a non-negative number of f32 "
                    "(adamw, "},
        WrongOption{
            "AdamWNorm",
            [](Tensor l) { nn::AdamW({.max_gradient_norm = -1}).Minimize(l); },
            ".max_gradient_norm is -1, not a non-negative number of f32 "
            "(adamw, "},
        WrongOption{
            "AdamWRate",
            [](Tensor l) { nn::AdamW({.learning_rate = -1e-3}).Minimize(l); },
            "a schedule is -0.001, not a non-negative number of f32 "
            "(schedule, "},
        WrongOption{"AdafactorExponent",
                    [](Tensor l) {
                      nn::Adafactor({.decay_exponent = kNaN}).Minimize(l);
                    },
                    ".decay_exponent is nan, not a non-negative number of f32"},
        WrongOption{"AdafactorBeta2",
                    [](Tensor l) { nn::Adafactor({.beta2 = 1}).Minimize(l); },
                    ".beta2 is 1, not in [0, 1) (adafactor, "},
        WrongOption{"AdafactorBeta1",
                    [](Tensor l) { nn::Adafactor({.beta1 = 1}).Minimize(l); },
                    ".beta1 is 1, not in [0, 1) (adafactor, "},
        WrongOption{
            "AdafactorThreshold",
            [](Tensor l) {
              nn::Adafactor({.clipping_threshold = -1}).Minimize(l);
            },
            ".clipping_threshold is -1, not a non-negative number of f32"},
        WrongOption{
            "AdafactorEpsilon1",
            [](Tensor l) { nn::Adafactor({.epsilon1 = 0}).Minimize(l); },
            ".epsilon1 is 0, not a positive number of f32 (adafactor"},
        WrongOption{
            "AdafactorEpsilon2",
            [](Tensor l) { nn::Adafactor({.epsilon2 = 1e39}).Minimize(l); },
            ".epsilon2 is 1e+39, not a non-negative number of f32"},
        WrongOption{"AdafactorFactored",
                    [](Tensor l) {
                      nn::Adafactor({.min_factored_size = -1}).Minimize(l);
                    },
                    ".min_factored_size is -1, less than 0 (adafactor, "}),
    [](const auto& info) { return std::string(info.param.name); });

// The value 0 disables these options.
TEST(OptimizerOptions, ZeroDisables) {
  OracleGraph o;
  const Tensor w = o.Parameter("w", {kIo}, {1, 1, 1});
  const Tensor loss = ReduceSum(Square(w), {});
  nn::Sgd({.learning_rate = 0.0, .momentum = 0, .weight_decay = 0})
      .Minimize(loss);
  nn::AdamW({.beta1 = 0, .beta2 = 0, .weight_decay = 0}).Minimize(loss);
  nn::Adafactor({.decay_exponent = 0,
                 .clipping_threshold = 0,
                 .epsilon2 = 0,
                 .min_factored_size = 0})
      .Minimize(loss);
  EXPECT_OK(o.graph.status());
}

// Momentum by a rule of the author's own, which reads what all parameters
// share.
nn::Optimizer OwnMomentum(nn::OptimizerOptions options, double momentum) {
  options.make_rule = [momentum](Tensor step, Tensor learning_rate) {
    const Tensor rate = learning_rate / (step + 1.0);
    return [momentum, rate](nn::ParameterUpdate& p) {
      const Tensor state = p.State("velocity", p.variable.shape);
      const Tensor velocity = momentum * state + p.gradient;
      p.SetState(state, velocity);
      return p.value - rate * velocity;
    };
  };
  options.name = "own";
  return nn::Optimizer(options);
}

TEST(OwnOptimizer, FollowsItsRuleAndItsState) {
  testing::Bowl bowl;
  const Tensor step =
      OwnMomentum({.learning_rate = 0.1}, 0.9).Minimize(bowl.loss);
  std::vector<double> velocity(3, 0.0);
  bowl.ExpectTrajectory(step, [&velocity](int i, double, double g, int t) {
    velocity[i] = 0.9 * velocity[i] + g;
    return 0.1 / t * velocity[i];
  });
  std::vector<std::string> names;
  for (const VariableInfo& info : bowl.o.graph.variables()) {
    names.push_back(info.name);
    EXPECT_EQ(info.kind, info.name == "w" ? VariableKind::kParameter
                                          : VariableKind::kOptimizerState);
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("w", "own/step",
                                                     "own/w/velocity"));
}

TEST(OwnOptimizer, HasClippingOfAllOptimizers) {
  testing::Bowl bowl;
  const Tensor step =
      OwnMomentum({.learning_rate = 0.1, .max_gradient_norm = 0.5}, 0)
          .Minimize(bowl.loss);
  bowl.o.Run(step);
  // The gradient (1, -0.6, -1) is scaled to the norm 0.5.
  const double scale = 0.1 * 0.5 / std::sqrt(1 + 0.36 + 1);
  testing::ExpectNear(bowl.o.Value("w"),
                      {1 - scale, -2 + 0.6 * scale, 0.5 + scale});
}

// In a step whose gradients are not finite, parameter and state keep their
// values.
TEST(OwnOptimizer, SkipsStepsThatOverflow) {
  OracleGraph o;
  const Tensor w = o.Parameter("w", {}, {2.0});
  const Tensor x = Input(o.graph, "x", kFloat32, {});
  const Tensor loss = Cast(Cast(w, kFloat16) * Cast(x, kFloat16), kFloat32);
  const Tensor step =
      OwnMomentum({.learning_rate = 0.5, .loss_scale = {.initial = 1024}}, 0.5)
          .Minimize(loss);
  ASSERT_OK(o.graph.status());
  o.variables["own/loss_scale"] = {{}, kFloat32, {1024.0}};
  const auto feed = [&o](float value) {
    o.feeds["x"] = HostTensor::Of<float>({}, {value});
  };
  feed(4);
  o.Run(step);
  EXPECT_NEAR(o.Value("w")[0], 0, 1e-9);
  feed(std::numeric_limits<float>::infinity());
  o.Run(step);
  EXPECT_NEAR(o.Value("w")[0], 0, 1e-9);
  EXPECT_NEAR(o.Value("own/w/velocity")[0], 4, 1e-9);
  EXPECT_EQ(o.Value("own/loss_scale")[0], 512);
}

// What nn::Parameter() returns is a cast of the variable in this precision.
TEST(OptimizerErrors, ACastOfAParameterNamesTheWayOut) {
  Graph graph;
  const PrecisionScope precision(graph, {.parameters = kBFloat16});
  const Tensor w =
      nn::Parameter(graph, "w", Ones(graph, kFloat32, {kIo}), kFloat32);
  nn::Sgd().Apply({w}, {w});
  EXPECT_THAT(
      graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("or VariableInfo::read of graph.variables()")));
}

struct WrongRule {
  const char* name;
  nn::MakeUpdateRule make_rule;
  const char* message;
  friend void PrintTo(const WrongRule& c, std::ostream* out) { *out << c.name; }
};

class WrongRules : public ::testing::TestWithParam<WrongRule> {};

TEST_P(WrongRules, AreErrorsOfTheOptimizer) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {kIo}));
  const int line = __LINE__ + 1;
  nn::Optimizer({.make_rule = GetParam().make_rule, .name = "own"})
      .Minimize(ReduceSum(Square(w), {}));
  EXPECT_THAT(graph.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr(GetParam().message)));
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AnyOf(HasSubstr(absl::StrCat(":", line, ")")),
                             HasSubstr(absl::StrCat(":", line + 1, ")")))));
}

nn::MakeUpdateRule Returning(const std::function<Tensor(Tensor)>& function) {
  return [function](Tensor, Tensor) {
    return [function](nn::ParameterUpdate& p) { return function(p.gradient); };
  };
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, WrongRules,
    ::testing::Values(
        WrongRule{"None", nullptr,
                  "the option .make_rule is empty: an optimizer needs a "
                  "function that returns the new value of a parameter (own, "},
        WrongRule{"NoResult", [](Tensor, Tensor) { return nn::UpdateRule(); },
                  "the result of .make_rule is empty: "},
        WrongRule{"EmptyTensor", Returning([](Tensor) { return Tensor(); }),
                  "the update rule of parameter \"w\" returned an empty "
                  "Tensor (own, "},
        WrongRule{"OtherDimensions",
                  Returning([](Tensor g) { return ReduceSum(g, {}); }),
                  "the update rule of parameter \"w\" did not return an f32 "
                  "tensor [io=3] (own, "},
        WrongRule{"OtherDType",
                  Returning([](Tensor g) { return Cast(g, kFloat16); }),
                  "did not return an f32 tensor [io=3] (own, "}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(OwnOptimizer, RecordsTheErrorOfItsOwnOptions) {
  Graph graph;
  const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, {}));
  nn::OptimizerOptions options = {
      .status = absl::InvalidArgumentError(".momentum is 2")};
  OwnMomentum(options, 2).Minimize(w * w);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(".momentum is 2 (own, optimizer_test.cc:")));
}

// Empty lists have no graph to record an error in; the step reports it.
TEST(Apply, NoTensorsGiveAnEmptyTensor) {
  const Tensor step = nn::Sgd().Apply({}, {});
  EXPECT_FALSE(step.valid());
  Graph graph;
  EXPECT_THAT(Interpret(graph, {}, {step}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("fetch 0 is an empty Tensor\n  help     ")));
}

}  // namespace
}  // namespace mtf
