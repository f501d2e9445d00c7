// SPDX-License-Identifier: Apache-2.0
#include "nn/experts/experts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "nn/layers/dense.h"
#include "ops/elementwise.h"
#include "tests/nn/experts/expert_loops.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::ExpectNear;
using ::mtf::testing::ExpertLoops;
using ::mtf::testing::LoopResult;
using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using nn::Dispatch;
using nn::ExpertsOptions;
using nn::FurtherChoices;
using nn::Routing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2}, kLength{"length", 12}, kModel{"d_model", 4},
    kHidden{"d_ff", 3}, kExperts{"experts", 5};

struct RoutingCase {
  std::string name;
  ExpertsOptions options;
  int64_t capacity;  // as the options give it
  bool has_limit = false;
  friend std::ostream& operator<<(std::ostream& out, const RoutingCase& c) {
    return out << c.name;
  }
};

std::vector<RoutingCase> Cases() {
  return {
      {"Switch", {.choices = 1, .min_capacity = 1}, 3},
      {"SwitchNormalized", {.choices = 1, .normalize = true}, 4},
      {"TopTwo", {.capacity_factor = 0.75, .min_capacity = 1}, 4},
      {"TopTwoNotNormalized", {.normalize = false}, 6},
      {"TopTwoFirstsOnly", {.further = FurtherChoices::kNone}, 6},
      {"TopTwoAboveThreshold",
       {.further = FurtherChoices::kThreshold, .threshold = 0.35},
       6},
      {"TopThreeByPriority",
       {.choices = 3, .prioritize = true, .capacity_factor = 0.5},
       4},
      {"TopTwoWithLimits",
       {.capacity_factor = 0.75, .min_capacity = 1},
       4,
       true},
      {"NoTokenLeftBehind",
       {.routing = Routing::kNoTokenLeftBehind,
        .choices = 3,
        .capacity_factor = 1,
        .min_capacity = 1},
       3},
      {"NoTokenLeftBehindWithLimits",
       {.routing = Routing::kNoTokenLeftBehind,
        .choices = 2,
        .capacity_factor = 0.8,
        .min_capacity = 1},
       2,
       true},
      {"ExpertChoice",
       {.routing = Routing::kExpertChoice,
        .capacity_factor = 0.7,
        .min_capacity = 1},
       4},
      {"ExpertChoiceWithLimits",
       {.routing = Routing::kExpertChoice, .capacity_factor = 1.2},
       6,
       true},
  };
}

class ExpertRouting : public ::testing::TestWithParam<RoutingCase> {};
INSTANTIATE_TEST_SUITE_P(All, ExpertRouting, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

std::vector<int32_t> Limits() {
  std::vector<int32_t> limits(kBatch.size * kLength.size);
  for (size_t i = 0; i < limits.size(); ++i) {
    limits[i] = static_cast<int32_t>(i * 7 % 4);
  }
  return limits;
}

LoopResult RunLoops(OracleGraph& o, const RoutingCase& c,
                    const ExpertsOptions& options) {
  const auto value = [&](const char* name) { return o.Value(name); };
  std::vector<int> limits;
  if (c.has_limit) {
    const std::vector<int32_t> all = Limits();
    limits.assign(all.begin(), all.end());
  }
  return ExpertLoops({2, 12, 4, 3, 5, static_cast<int>(c.capacity)}, options,
                     value("x"), value("experts/router"),
                     value("experts/expert/feed_forward/in/kernel"),
                     value("experts/expert/feed_forward/out/kernel"), limits)
      .Run();
}

TEST_P(ExpertRouting, IsThatOfPlainLoops) {
  const RoutingCase& c = GetParam();
  for (const Dispatch dispatch : {Dispatch::kOneHot, Dispatch::kSorted}) {
    OracleGraph o;
    ExpertsOptions options = c.options;
    options.dispatch = dispatch;
    if (c.has_limit) {
      options.limit = o.Integers("limit", {kBatch, kLength}, Limits());
    }
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    const nn::Experts y =
        nn::MixtureOfExperts(x, kExperts, kHidden, Relu, options);
    EXPECT_EQ(y.output.shape(), x.shape());
    const auto values = o.RunAll(
        {y.output, y.load_balancing_loss, y.z_loss, y.dropped, y.load});
    const LoopResult wanted = RunLoops(o, c, options);
    ExpectNear(values[0], wanted.output);
    ExpectNear(values[1], {wanted.load_balancing_loss});
    ExpectNear(values[2], {wanted.z_loss});
    ExpectNear(values[3], {wanted.dropped});
    ExpectNear(values[4], wanted.load);
  }
}

TEST_P(ExpertRouting, GradientsMatchDifferences) {
  OracleGraph o;
  ExpertsOptions options = GetParam().options;
  options.dispatch = Dispatch::kSorted;
  if (GetParam().has_limit) {
    options.limit = o.Integers("limit", {kBatch, kLength}, Limits());
  }
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const nn::Experts y =
      nn::MixtureOfExperts(x, kExperts, kHidden, Gelu, options);
  o.ExpectGradientsOf(testing::Probe(o, y.output) + y.load_balancing_loss +
                      y.z_loss);
}

TEST(Experts, GradientsOfAOneHotDispatchMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const nn::Experts y = nn::MixtureOfExperts(
      x, kExperts, kHidden, Gelu,
      {.capacity_factor = 0.75, .dispatch = Dispatch::kOneHot});
  o.ExpectGradientsOf(testing::Probe(o, y.output));
}

TEST(Experts, GroupsAreSplitUpToTheirSize) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const nn::Experts y = nn::MixtureOfExperts(x, kExperts, kHidden, Relu,
                                             {.choices = 1, .group_size = 5});
  EXPECT_EQ(y.output.shape(), x.shape());
  const std::vector<double> actual = o.Run(y.output);
  // Groups of 4, the largest divisor of 12 up to 5.
  ExpertsOptions options{.choices = 1};
  const LoopResult wanted =
      ExpertLoops({6, 4, 4, 3, 5, 4}, options, o.Value("x"),
                  o.Value("experts/router"),
                  o.Value("experts/expert/feed_forward/in/kernel"),
                  o.Value("experts/expert/feed_forward/out/kernel"), {})
          .Run();
  ExpectNear(actual, wanted.output);
}

TEST(Experts, BalancedRoutersHaveALossOfOne) {
  OracleGraph o;
  o.Parameter("x", {kBatch, kLength, kModel});
  const Tensor x = o.graph.variables()[0].read;
  const nn::Experts y = nn::MixtureOfExperts(x, kExperts, kHidden, Relu);
  o.Fill();
  o.variables["experts/router"].data.assign(20, 0.0);
  // All probabilities are 1 / 5, so every first choice is expert 0.
  const auto values =
      o.RunAll({y.load_balancing_loss, y.z_loss, y.load, y.dropped});
  ExpectNear(values[0], {1});
  ExpectNear(values[1], {std::log(5.0) * std::log(5.0)});
  ExpectNear(values[2], {0.5, 0.5, 0, 0, 0});
  ExpectNear(values[3], {0.5});  // 6 of 12 slots for each of two experts
}

TEST(Experts, PaddingDoesNotCountInTheLossOfLoads) {
  // The first of the groups has 6 tokens, the second none.
  std::vector<int32_t> limits(24, 0);
  std::fill_n(limits.begin(), 6, 2);
  for (const bool all_padding : {false, true}) {
    OracleGraph o;
    o.Parameter("x", {kBatch, kLength, kModel});
    const Tensor limit =
        o.Integers("limit", {kBatch, kLength},
                   all_padding ? std::vector<int32_t>(24, 0) : limits);
    const Tensor x = o.graph.variables()[0].read;
    const nn::Experts y =
        nn::MixtureOfExperts(x, kExperts, kHidden, Relu, {.limit = limit});
    o.Fill();
    o.variables["experts/router"].data.assign(20, 0.0);
    // All probabilities are 1 / 5, so every first choice is expert 0.
    ExpectNear(o.Run(y.load_balancing_loss), {all_padding ? 0.0 : 1.0});
  }
}

TEST(Experts, AnEvaluationHasItsOwnCapacityAndNoRandomNumbers) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  ExpertsOptions options{.further = FurtherChoices::kRandom,
                         .threshold = 1e6,
                         .capacity_factor = 0.5,
                         .evaluation_capacity_factor = 5,
                         .jitter = 0.5};
  const nn::Experts train =
      nn::MixtureOfExperts(x, kExperts, kHidden, Relu, options);
  const ModeScope mode(o.graph, Mode::kEvaluate);
  const nn::Experts evaluation =
      nn::MixtureOfExperts(x, kExperts, kHidden, Relu, options);
  ExpectNear(o.Run(evaluation.dropped), {0});
  EXPECT_EQ(o.Run(evaluation.output), o.Run(evaluation.output));
  EXPECT_NE(o.Run(train.z_loss), o.Run(train.z_loss));
}

TEST(Experts, RandomSecondChoicesAreSentByTheirWeight) {
  OracleGraph o;
  const Dimension length{"length", 2000};
  const Tensor x = o.Parameter("x", {length, kModel});
  const nn::Experts y =
      nn::MixtureOfExperts(x, {"experts", 2}, kHidden, Relu,
                           {.further = FurtherChoices::kRandom,
                            .threshold = 1,
                            .capacity_factor = 2});
  o.Fill();
  o.variables["experts/router"].data.assign(8, 0.0);
  // Weights are 1/2, so half of the second choices are sent to expert 1.
  const std::vector<double> load = o.Run(y.load);
  EXPECT_NEAR(load[1], 1.0 / 3, 0.02);
}

TEST(Experts, MayBeAnyFunction) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kLength, kModel});
  const Dimension out{"out", 3};
  const nn::Experts y = nn::MixtureOfExperts(
      x, kExperts,
      [&](Tensor rows) {
        EXPECT_EQ(rows.shape(), Shape({kExperts, {"capacity", 12}, kModel}));
        return nn::Dense(rows, {kModel}, {out},
                         {.bias = true, .each = {kExperts}});
      },
      {.choices = 1, .normalize = true, .capacity_factor = 5});
  EXPECT_EQ(y.output.shape(), Shape({kLength, out}));
  EXPECT_EQ(o.graph.variables()[2].name, "experts/expert/dense/kernel");
  EXPECT_EQ(o.graph.variables()[2].shape, Shape({kExperts, kModel, out}));
  EXPECT_EQ(o.graph.variables()[3].shape, Shape({kExperts, out}));
  o.ExpectGradientsOf(testing::Probe(o, y.output));
}

TEST(Experts, ComputeInTheActivationDType) {
  Graph graph;
  const PrecisionScope precision(graph, {.activations = kBFloat16});
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  const nn::Experts y = nn::MixtureOfExperts(x, kExperts, kHidden, Gelu);
  EXPECT_OK(graph.status());
  EXPECT_EQ(y.output.dtype(), kBFloat16);
  EXPECT_EQ(y.z_loss.dtype(), kFloat32);
}

TEST(TwoLevelExperts, OfOneOuterExpertAreItsInnerOnes) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Dimension outer{"outer", 1};
  const nn::Experts y = nn::TwoLevelExperts(
      x, outer, kExperts, kHidden, Relu,
      {.outer = {.choices = 1}, .inner = {.capacity_factor = 9}});
  EXPECT_EQ(y.load.shape(), Shape({outer, kExperts}));
  const auto values = o.RunAll({y.output, y.dropped});
  // Without drops groups do not matter.
  ExpertsOptions options;
  const LoopResult wanted =
      ExpertLoops(
          {2, 12, 4, 3, 5, 24}, options, o.Value("x"),
          o.Value("experts/expert/experts/router"),
          o.Value("experts/expert/experts/expert/feed_forward/in/kernel"),
          o.Value("experts/expert/experts/expert/feed_forward/out/"
                  "kernel"),
          {})
          .Run();
  ExpectNear(values[0], wanted.output);
  ExpectNear(values[1], {0});
}

// Element `i` of `n` of the values of a variable along its first dimension.
std::vector<double> Part(OracleGraph& o, const std::string& name, int i,
                         int n) {
  const std::vector<double>& all = o.Value(name);
  const auto size = static_cast<std::ptrdiff_t>(all.size()) / n;
  return {all.begin() + i * size, all.begin() + (i + 1) * size};
}

TEST(TwoLevelExperts, SendLaterChoicesToOneInnerExpert) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const Dimension outer{"outer", 3};
  const nn::Experts y = nn::TwoLevelExperts(
      x, outer, kExperts, kHidden, Relu,
      {.outer = {.capacity_factor = 9}, .inner = {.capacity_factor = 9}});
  const std::vector<double> actual = o.Run(y.output);
  const std::vector<double>& tokens = o.Value("x");
  const std::vector<double>& router = o.Value("experts/router");
  std::vector<double> wanted(tokens.size(), 0.0);
  for (int e = 0; e < 3; ++e) {
    // By token: its weight for `e`, and how many inner experts it may have.
    std::vector<double> weights;
    std::vector<int> limits;
    for (size_t t = 0; t < tokens.size() / 4; ++t) {
      double p[3] = {0, 0, 0};
      for (int i = 0; i < 3; ++i) {
        for (int d = 0; d < 4; ++d) {
          p[i] += tokens[t * 4 + d] * router[d * 3 + i];
        }
        p[i] = std::exp(p[i]);
      }
      int better = 0;
      for (double each : p) better += each > p[e];
      const double others = *std::min_element(p, p + 3);
      weights.push_back(p[e] / (p[0] + p[1] + p[2] - others));
      limits.push_back(better == 0 ? 2 : better == 1 ? 1 : 0);
    }
    const std::string scope = "experts/expert/experts/";
    const LoopResult inner =
        ExpertLoops(
            {2, 12, 4, 3, 5, 24}, {}, tokens, Part(o, scope + "router", e, 3),
            Part(o, scope + "expert/feed_forward/in/kernel", e, 3),
            Part(o, scope + "expert/feed_forward/out/kernel", e, 3), limits)
            .Run();
    for (size_t i = 0; i < wanted.size(); ++i) {
      wanted[i] += weights[i / 4] * inner.output[i];
    }
  }
  ExpectNear(actual, wanted);
}

TEST(TwoLevelExperts, GradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x =
      o.Parameter("x", {{"pods", 2}, {"batch", 2}, {"length", 6}, kModel});
  const nn::Experts y =
      nn::TwoLevelExperts(x, {"outer", 3}, {"inner", 2}, kHidden, Gelu);
  EXPECT_EQ(y.output.shape(), x.shape());
  o.ExpectGradientsOf(testing::Probe(o, y.output) + y.load_balancing_loss +
                      y.z_loss);
}

std::string ErrorOf(Shape shape, Dimension experts,
                    const ExpertsOptions& options) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, std::move(shape));
  nn::MixtureOfExperts(x, experts, kHidden, Relu, options);
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(graph.status().message());
}

TEST(ExpertErrors, SayWhatIsWrong) {
  const Shape x = {kBatch, kLength, kModel};
  EXPECT_THAT(ErrorOf({kModel}, kExperts, {}),
              AllOf(HasSubstr("\"x\" needs a dimension of tokens"),
                    HasSubstr("(mixture_of_experts \"experts\", "
                              "experts_test.cc:")));
  EXPECT_THAT(ErrorOf(x, kBatch, {}),
              HasSubstr("\"x\" has the dimension \"batch\", which the layer "
                        "creates"));
  EXPECT_THAT(ErrorOf({{"capacity", 3}, kLength, kModel}, kExperts, {}),
              HasSubstr("\"x\" has the dimension \"capacity\""));
  EXPECT_THAT(ErrorOf(x, kExperts, {.choices = 6}),
              HasSubstr(".choices is 6, but must be from 1 to 5, the size of "
                        "\"experts\""));
  EXPECT_THAT(ErrorOf(x, kExperts, {.choices = 0}), HasSubstr(".choices is 0"));
  EXPECT_THAT(ErrorOf(x, kExperts, {.capacity_factor = 0}),
              HasSubstr(".capacity_factor"));
  EXPECT_THAT(ErrorOf(x, kExperts, {.evaluation_capacity_factor = -1}),
              HasSubstr(".evaluation_capacity_factor"));
  EXPECT_THAT(ErrorOf(x, kExperts, {.threshold = 0}), HasSubstr(".threshold"));
  EXPECT_THAT(ErrorOf(x, kExperts, {.jitter = 1}), HasSubstr(".jitter"));
  EXPECT_THAT(ErrorOf(x, kExperts, {.min_capacity = 0}),
              HasSubstr(".min_capacity is 0 and .group_size 0"));
  EXPECT_THAT(ErrorOf(x, kExperts, {.group_size = -1}),
              HasSubstr(".min_capacity is 4 and .group_size -1"));
}

TEST(ExpertErrors, OptionsThatTheRoutingDoesNotUse) {
  const auto error = [](const ExpertsOptions& options) {
    return ErrorOf({kBatch, kLength, kModel}, kExperts, options);
  };
  EXPECT_THAT(error({.routing = Routing::kExpertChoice, .normalize = true}),
              AllOf(HasSubstr(".normalize is set, but has no effect with "
                              "Routing::kExpertChoice"),
                    HasSubstr("set .routing to Routing::kTopK")));
  EXPECT_THAT(error({.routing = Routing::kExpertChoice,
                     .further = FurtherChoices::kRandom}),
              HasSubstr(".further is set"));
  EXPECT_THAT(error({.routing = Routing::kExpertChoice, .prioritize = true}),
              HasSubstr(".prioritize is set"));
  EXPECT_THAT(error({.routing = Routing::kNoTokenLeftBehind,
                     .further = FurtherChoices::kNone}),
              HasSubstr(".further is set, but has no effect with "
                        "Routing::kNoTokenLeftBehind"));
}

TEST(ExpertErrors, ALimitOfTheWrongKind) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  const Tensor limit = Input(graph, "limit", kFloat32, {kBatch, kLength});
  nn::MixtureOfExperts(x, kExperts, kHidden, Relu, {.limit = limit});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(".limit must be i32 with dimensions of \"x\" "
                                 "before \"d_model\"")));
}

TEST(ExpertErrors, AFunctionThatDropsRows) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kLength, kModel});
  nn::MixtureOfExperts(x, kExperts, [&](Tensor rows) {
    return ReduceSum(rows, {kExperts, kModel});
  });
  EXPECT_THAT(graph.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("\"capacity\""),
                                             HasSubstr("(mixture_of_experts, "
                                                       "experts_test.cc:"))));
}

TEST(ExpertErrors, NoFunction) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kLength, kModel});
  nn::MixtureOfExperts(x, kExperts, nullptr);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the function of the experts is null")));
}

TEST(ExpertErrors, TwoLevelsNeedThreeDimensions) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kLength, kModel});
  nn::TwoLevelExperts(x, {"outer", 2}, {"inner", 2}, kHidden, Relu);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("two levels of experts need [..., groups, "
                                 "tokens, d_model]")));
}

TEST(ExpertErrors, TwoLevelsNeedTwoNames) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  nn::TwoLevelExperts(x, kExperts, kExperts, kHidden, Relu);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("both levels of experts are called "
                                 "\"experts\"")));
}

TEST(Experts, OfNothingAreNothing) {
  EXPECT_FALSE(
      nn::MixtureOfExperts(Tensor(), kExperts, kHidden, Relu).output.valid());
}

}  // namespace
}  // namespace mtf
