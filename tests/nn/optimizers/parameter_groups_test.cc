// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/parameter_groups.h"

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nn/optimizers/adafactor.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/muon.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Scalar parameters, whose gradients are 1.
struct Names {
  OracleGraph o;
  std::map<std::string, Tensor> parameters;
  Tensor loss;

  explicit Names(const std::vector<std::string>& names = {
                     "embedding/table", "layer_0/dense/kernel",
                     "layer_0/dense/bias", "layer_1/dense/kernel",
                     "layer_1/dense/bias"}) {
    for (const std::string& name : names) {
      parameters[name] = o.Parameter(name, {}, {1.0});
      loss = loss.valid() ? loss + parameters[name] : parameters[name];
    }
  }
  // The change of each parameter in one step.
  std::map<std::string, double> Changes(Tensor step) {
    EXPECT_OK(o.graph.status());
    o.Run(step);
    std::map<std::string, double> changes;
    for (const auto& [name, parameter] : parameters) {
      changes[name] = 1 - o.Value(name)[0];
    }
    return changes;
  }
};

TEST(ParameterGroups, TheLastGroupThatHasASettingDeterminesIt) {
  Names names;
  auto changes = names.Changes(
      nn::Sgd({.learning_rate = 0.1,
               .weight_decay = 1,
               .groups = {{.parameters = "**/bias", .weight_decay = 0},
                          {.parameters = "layer_*", .learning_rate = 0.2},
                          {.parameters = "layer_1/dense/bias",
                           .learning_rate = 0.4},
                          {.parameters = "layer_0", .weight_decay = 3}}})
          .Minimize(names.loss));
  // The rate times one plus the decay.
  EXPECT_NEAR(changes["embedding/table"], 0.1 * 2, 1e-7);
  EXPECT_NEAR(changes["layer_0/dense/kernel"], 0.2 * 4, 1e-7);
  EXPECT_NEAR(changes["layer_0/dense/bias"], 0.2 * 4, 1e-7);
  EXPECT_NEAR(changes["layer_1/dense/kernel"], 0.2 * 2, 1e-7);
  EXPECT_NEAR(changes["layer_1/dense/bias"], 0.4 * 1, 1e-7);
}

TEST(ParameterGroups, SchedulesCountTheUpdatesOfTheOptimizer) {
  Names names({"a", "b"});
  const Tensor step =
      nn::Sgd({.learning_rate = 1.0,
               .groups = {{.parameters = "b",
                           .learning_rate = 2.0 * nn::LinearWarmup(4)}}})
          .Minimize(names.loss);
  names.Changes(step);
  EXPECT_NEAR(names.o.Value("b")[0], 1 - 0.5, 1e-7);
  names.Changes(step);
  EXPECT_NEAR(names.o.Value("a")[0], 1 - 2.0, 1e-7);
  EXPECT_NEAR(names.o.Value("b")[0], 1 - 1.5, 1e-7);
}

// The variables that an optimizer has created.
std::vector<std::string> StateOf(const Graph& graph) {
  std::vector<std::string> state;
  for (const VariableInfo& info : graph.variables()) {
    if (info.kind == VariableKind::kOptimizerState) state.push_back(info.name);
  }
  return state;
}

TEST(ParameterGroups, FrozenParametersHaveNoGradientAndNoState) {
  Names names;
  const Tensor step =
      nn::Sgd({.learning_rate = 0.1,
               .momentum = 0.5,
               .groups = {{.parameters = "**", .frozen = true},
                          {.parameters = "layer_1", .frozen = false}},
               .max_gradient_norm = 1,
               .accumulate_steps = 2,
               .average_decay = 0.9})
          .Minimize(names.loss);
  ASSERT_OK(names.o.graph.status());
  for (const std::string& state : StateOf(names.o.graph)) {
    EXPECT_TRUE(absl::StrContains(state, "layer_1") || state == "sgd/step" ||
                state == "sgd/accumulated")
        << state;
  }
  for (int i = 0; i < 3; ++i) names.Changes(step);
  EXPECT_EQ(names.o.Value("embedding/table")[0], 1.0);
  EXPECT_EQ(names.o.Value("layer_0/dense/bias")[0], 1.0);
  EXPECT_LT(names.o.Value("layer_1/dense/bias")[0], 1.0);
}

// No operation of the backward pass belongs to a frozen parameter.
TEST(ParameterGroups, GradientsEndAtFrozenParameters) {
  const auto operations = [](bool frozen) {
    OracleGraph o;
    const Tensor a = o.Parameter("a", {}, {1.0});
    const Tensor b = o.Parameter("b", {}, {1.0});
    const Tensor loss = Sin(Cos(a)) * b;
    nn::SgdOptions options;
    if (frozen) options.groups = {{.parameters = "a", .frozen = true}};
    nn::Sgd(options).Minimize(loss);
    int gradients = 0;
    for (const auto& operation : o.graph.operations()) {
      gradients += absl::StrContains(operation->name(), "sin_grad") ? 1 : 0;
    }
    return gradients;
  };
  EXPECT_GT(operations(false), 0);
  EXPECT_EQ(operations(true), 0);
}

TEST(ParameterGroups, AFrozenParameterHasNoMasterCopy) {
  Graph graph;
  const auto parameter = [&](const char* name) {
    return Variable(graph, name, Ones(graph, kFloat32, {}),
                    {.dtype = kBFloat16});
  };
  const Tensor loss = Cast(parameter("a") * parameter("b"), kFloat32);
  nn::Sgd({.groups = {{.parameters = "a", .frozen = true}}}).Minimize(loss);
  ASSERT_OK(graph.status());
  EXPECT_THAT(StateOf(graph), ElementsAre("sgd/step", "sgd/b/master"));
}

TEST(ParameterGroups, ApplySkipsFrozenVariables) {
  Names names({"a", "b"});
  const Tensor one = Ones(names.o.graph, kFloat32, {});
  auto changes = names.Changes(
      nn::Sgd({.learning_rate = 0.5,
               .groups = {{.parameters = "a", .frozen = true}}})
          .Apply({one, one}, {names.parameters["a"], names.parameters["b"]}));
  EXPECT_EQ(changes["a"], 0);
  EXPECT_EQ(changes["b"], 0.5);
}

TEST(Minimize, UpdatesOnlyWhatMatches) {
  Names names({"layer_0/dense/kernel", "layer_0/adapter/down/kernel",
               "layer_1/adapter/down/kernel"});
  auto changes =
      names.Changes(nn::AdamW({.learning_rate = 0.5, .weight_decay = 0})
                        .Minimize(names.loss, {.only = "**/adapter"}));
  EXPECT_EQ(changes["layer_0/dense/kernel"], 0);
  EXPECT_NEAR(changes["layer_0/adapter/down/kernel"], 0.5, 1e-6);
  EXPECT_NEAR(changes["layer_1/adapter/down/kernel"], 0.5, 1e-6);
  EXPECT_THAT(StateOf(names.o.graph),
              ::testing::Each(AnyOf(HasSubstr("adapter"), "adamw/step")));
}

// Rules of users see what groups set.
TEST(ParameterGroups, ReachUpdateRules) {
  Names names({"a", "b"});
  const auto make_rule = [](Tensor, Tensor rate) {
    return [rate](nn::ParameterUpdate& p) {
      return p.value - rate * (p.gradient + p.weight_decay);
    };
  };
  auto changes = names.Changes(nn::Optimizer({.learning_rate = 0.5,
                                              .make_rule = make_rule,
                                              .weight_decay = 1,
                                              .groups = {{.parameters = "b",
                                                          .learning_rate = 0.25,
                                                          .weight_decay = 3}}})
                                   .Minimize(names.loss));
  EXPECT_NEAR(changes["a"], 1.0, 1e-7);
  EXPECT_NEAR(changes["b"], 1.0, 1e-7);
}

TEST(Optimizers, TakeAnEmptyListOfOptions) {
  Names names({"a"});
  nn::AdamW({}).Minimize(names.loss, {});
  nn::Sgd({}).Minimize(names.loss);
  EXPECT_OK(names.o.graph.status());
}

struct WrongName {
  const char* name;
  std::function<Tensor(Tensor)> minimize;
  std::vector<const char*> messages;
  friend void PrintTo(const WrongName& c, std::ostream* out) { *out << c.name; }
};

class WrongNames : public ::testing::TestWithParam<WrongName> {};

TEST_P(WrongNames, AreErrorsOfTheCaller) {
  Names names;
  GetParam().minimize(names.loss);
  for (const char* message : GetParam().messages) {
    EXPECT_THAT(names.o.graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(message),
                               HasSubstr(", parameter_groups_test.cc:"))));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongNames,
    ::testing::Values(
        WrongName{"AMisspelledParameter",
                  [](Tensor l) {
                    return nn::Sgd({.groups = {{.parameters = "**/bais",
                                                .weight_decay = 0}}})
                        .Minimize(l);
                  },
                  {"the pattern \"**/bais\" of .groups matches no parameter; "
                   "did you mean \"**/bias\"? (sgd, ",
                   "parameters have names such as \"embedding/table\""}},
        WrongName{"AMisspelledScope",
                  [](Tensor l) {
                    return nn::Sgd().Minimize(l, {.only = "layr_*/dense"});
                  },
                  {"the pattern \"layr_*/dense\" of .only matches no "
                   "parameter; did you mean \"layer_*/dense\"? (sgd, "}},
        WrongName{
            "AnotherNetwork",
            [](Tensor l) { return nn::Sgd().Minimize(l, {.only = "decoder"}); },
            {"the pattern \"decoder\" of .only matches no parameter "
             "(sgd, "}},
        WrongName{"NoPattern",
                  [](Tensor l) {
                    return nn::Sgd(
                               {.groups = {{.parameters = "", .frozen = true}}})
                        .Minimize(l);
                  },
                  {".groups has an empty pattern of parameters (sgd, ",
                   "\"**\" matches all of them"}},
        WrongName{
            "NoSetting",
            [](Tensor l) {
              return nn::Sgd({.groups = {{.parameters = "**"}}}).Minimize(l);
            },
            {"the group of parameters \"**\" sets nothing (sgd, "}},
        WrongName{"ANegativeDecay",
                  [](Tensor l) {
                    return nn::Sgd({.groups = {{.parameters = "embedding",
                                                .weight_decay = -1}}})
                        .Minimize(l);
                  },
                  {".weight_decay of the group \"embedding\" is -1, not a "
                   "non-negative number of f32 (sgd, "}},
        WrongName{"EverythingIsFrozen",
                  [](Tensor l) {
                    return nn::Sgd({.groups = {{.parameters = "layer_0",
                                                .frozen = true}}})
                        .Minimize(l, {.only = "layer_0"});
                  },
                  {"nothing to update: all parameters that match .only are "
                   "frozen (sgd, "}},
        WrongName{"AnUnknownKernel",
                  [](Tensor l) {
                    return nn::Muon({.adam_kernels = {"embeding"}}).Minimize(l);
                  },
                  {"the pattern \"embeding\" of the optimizer matches no "
                   "parameter; did you mean \"embedding\"? (muon, "}},
        WrongName{"AnUnknownDimension",
                  [](Tensor l) {
                    return nn::Adafactor({.stacked = {"experts"}}).Minimize(l);
                  },
                  {"no parameter has the dimension \"experts\" (adafactor, "}},
        WrongName{"NoSteps",
                  [](Tensor l) {
                    return nn::Sgd({.accumulate_steps = 0}).Minimize(l);
                  },
                  {".accumulate_steps is 0, less than 1 (sgd, "}},
        WrongName{
            "ADecayOfOne",
            [](Tensor l) { return nn::Sgd({.average_decay = 1}).Minimize(l); },
            {".average_decay is 1, not in [0, 1) (sgd, "}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mtf
