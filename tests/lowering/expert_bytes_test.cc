// SPDX-License-Identifier: Apache-2.0
//
// The collectives of mixtures of experts. Tokens go to their experts and back
// in one all_to_all each: over n ranks, (n-1)/n of the slots of a rank.
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "nn/experts/experts.h"
#include "nn/layers/parameter.h"
#include "nn/optimizers/sgd.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

using nn::ExpertsOptions;
using nn::Routing;
using ::testing::HasSubstr;

const Dimension kPods{"pods", 4}, kBatch{"batch", 8}, kLength{"length", 32},
    kModel{"d_model", 16}, kHidden{"d_ff", 24}, kExperts{"experts", 8};

struct Model {
  Graph graph;
  Tensor loss, step;
};

// Builds x + y, where y is the output of `layer`, as a step of training.
template <class Layer>
void Build(Model& model, const Shape& shape, DType dtype, const Layer& layer) {
  const PrecisionScope precision(model.graph, {.activations = dtype});
  const Tensor x = Input(model.graph, "x", dtype, shape);
  // A parameter before the layer, so that it has a gradient of its input.
  const Tensor scaled =
      x * nn::Parameter(model.graph, "scale",
                        Ones(model.graph, kFloat32, {kModel}), dtype);
  const nn::Experts y = layer(scaled);
  model.loss = ReduceMean(Square(Cast(scaled + y.output, kFloat32)), {}) +
               0.01 * y.load_balancing_loss + 0.001 * y.z_loss;
  model.step = nn::Sgd({.learning_rate = 0.1}).Minimize(model.loss);
}

using Calls = std::map<std::string, std::pair<int64_t, int64_t>>;

Calls CallsOf(const absl::StatusOr<Program>& program) {
  Calls calls;
  EXPECT_OK(program);
  if (!program.ok()) return calls;
  for (const auto& [key, count] : CountCollectives(*program)) {
    calls[absl::StrCat(CollectiveName(key.first), " ",
                       program->mesh.AxisNames(ListOf(key.second)))] = {
        count.first, count.second};
  }
  return calls;
}

// No tokens are gathered: parameters outside of experts have all_reduces of
// their gradients, and nothing else is sent.
void ExpectOnlySums(Calls calls, const std::vector<std::string>& all_to_alls) {
  for (const std::string& name : all_to_alls) calls.erase(name);
  for (const auto& [name, count] : calls) {
    EXPECT_THAT(name, HasSubstr("all_reduce"));
    // Router, scale and scalars; never the slots.
    EXPECT_LT(count.second, 4096) << name;
  }
}

struct LayerCase {
  const char* name;
  ExpertsOptions options;
  int64_t capacity;  // of a group of 32 tokens
  DType dtype = kFloat32;
  friend std::ostream& operator<<(std::ostream& out, const LayerCase& c) {
    return out << c.name;
  }
};

class ExpertBytes : public ::testing::TestWithParam<LayerCase> {};
INSTANTIATE_TEST_SUITE_P(
    Routings, ExpertBytes,
    ::testing::Values(
        LayerCase{"TopTwo", {}, 10},
        LayerCase{"TopTwoOneHot", {.dispatch = nn::Dispatch::kOneHot}, 10},
        LayerCase{"TopTwoInHalfPrecision", {}, 10, kBFloat16},
        LayerCase{"TopTwoGated", {.feed_forward = {.gated = true}}, 10},
        LayerCase{"Switch", {.choices = 1}, 5},
        LayerCase{"NoTokenLeftBehind",
                  {.routing = Routing::kNoTokenLeftBehind, .choices = 4},
                  5},
        LayerCase{"ExpertChoice", {.routing = Routing::kExpertChoice}, 10}),
    [](const auto& info) { return info.param.name; });

TEST_P(ExpertBytes, TwoAllToAllsForwardAndTwoBackward) {
  const LayerCase& c = GetParam();
  Model model;
  Build(model, {kBatch, kLength, kModel}, c.dtype, [&](Tensor x) {
    return nn::MixtureOfExperts(x, kExperts, kHidden, Gelu, c.options);
  });
  const int64_t slots = kBatch.size * kExperts.size * c.capacity;
  for (const int64_t n : {2, 4}) {
    const int64_t bytes =
        (n - 1) * (slots / n) * kModel.size * DTypeSize(c.dtype) / n;
    const std::string mesh = absl::StrCat("data:", n);
    const std::string layout = LayoutRules::Preset("expert")->ToString();
    Calls forward = CallsOf(
        LowerText(model.graph, mesh, layout, {.fetches = {model.loss}}));
    EXPECT_EQ(forward["all_to_all data"],
              std::make_pair(int64_t{2}, 2 * bytes));
    ExpectOnlySums(forward, {"all_to_all data"});
    Calls step =
        CallsOf(LowerText(model.graph, mesh, layout,
                          {.fetches = {model.loss}, .updates = {model.step}}));
    EXPECT_EQ(step["all_to_all data"], std::make_pair(int64_t{4}, 4 * bytes));
    ExpectOnlySums(step, {"all_to_all data"});
  }
}

TEST(ExpertBytes, OfDataParallelismAreGradientsOnly) {
  Model model;
  Build(model, {kBatch, kLength, kModel}, kFloat32, [&](Tensor x) {
    return nn::MixtureOfExperts(x, kExperts, kHidden, Gelu);
  });
  const Calls calls =
      CallsOf(LowerText(model.graph, "data:4", "batch:data",
                        {.fetches = {model.loss}, .updates = {model.step}}));
  for (const auto& [name, count] : calls) EXPECT_EQ(name, "all_reduce data");
}

// Groups of pods keep their axis: tokens move within a pod.
TEST(ExpertBytes, GroupsYieldOnlyTheAxesOfExperts) {
  Model model;
  Build(model, {kBatch, kLength, kModel}, kFloat32, [&](Tensor x) {
    return nn::MixtureOfExperts(x, kExperts, kHidden, Gelu);
  });
  Calls calls = CallsOf(LowerText(model.graph, "pod:2,data:2",
                                  "batch:pod+data, experts:data",
                                  {.fetches = {model.loss}}));
  const int64_t slots = kBatch.size * kExperts.size * 10;
  EXPECT_EQ(calls["all_to_all data"],
            std::make_pair(int64_t{2}, 2 * (slots / 4) * kModel.size * 4 / 2));
  ExpectOnlySums(calls, {"all_to_all data"});
}

// Tensor parallelism in experts adds its all_reduces, and expert parallelism
// over an axis of its own needs no all_to_all.
TEST(ExpertBytes, ExpertsOverAnotherAxisReadReplicatedTokens) {
  Model model;
  Build(model, {kBatch, kLength, kModel}, kFloat32, [&](Tensor x) {
    return nn::MixtureOfExperts(x, kExperts, kHidden, Gelu);
  });
  const Calls calls = CallsOf(LowerText(model.graph, "data:2,model:2",
                                        "batch:data, experts:model",
                                        {.fetches = {model.loss}}));
  for (const auto& [name, count] : calls) {
    EXPECT_THAT(name, HasSubstr("all_reduce"));
  }
}

// Also with split groups whose dimension is sharded.
TEST(ExpertBytes, GroupsOfASequence) {
  Model model;
  Build(model, {{"length", 256}, kModel}, kFloat32, [&](Tensor x) {
    return nn::MixtureOfExperts(x, kExperts, kHidden, Gelu, {.group_size = 32});
  });
  Calls calls =
      CallsOf(LowerText(model.graph, "data:4", "length:data, experts:data",
                        {.fetches = {model.loss}, .updates = {model.step}}));
  EXPECT_EQ(calls["all_to_all data"].first, 4);
  ExpectOnlySums(calls, {"all_to_all data"});
}

// Each level moves tokens along its own axis. The first also sends the order
// of choices.
TEST(ExpertBytes, TwoLevels) {
  const Dimension outer{"outer", 4}, inner{"inner", 2};
  Model model;
  Build(model, {kPods, kBatch, kLength, kModel}, kFloat32, [&](Tensor x) {
    return nn::TwoLevelExperts(x, outer, inner, kHidden, Gelu);
  });
  const char* layout = "pods:pod, batch:data, outer:data, inner:pod";
  // ceil(1.25 * 2 * 32 / 4) slots of a group, and of the 8 * 20 tokens that a
  // pod sends to one of `outer`, 2 * 160 / 2.
  const int64_t first = kPods.size * kBatch.size * outer.size * 20;
  const int64_t second = kPods.size * outer.size * inner.size * 160;
  const int64_t row = kModel.size * 4, n = 2, ranks = 4;
  for (const bool trains : {false, true}) {
    Targets targets{.fetches = {model.loss}};
    if (trains) targets.updates = {model.step};
    Calls calls =
        CallsOf(LowerText(model.graph, "pod:2,data:2", layout, targets));
    const int64_t times = trains ? 4 : 2;
    EXPECT_EQ(calls["all_to_all data"],
              std::make_pair(times + 1, (times * row + 4) * (first / ranks) *
                                            (n - 1) / n));
    EXPECT_EQ(
        calls["all_to_all pod"],
        std::make_pair(times, times * row * (second / ranks) * (n - 1) / n));
    ExpectOnlySums(calls, {"all_to_all data", "all_to_all pod"});
  }
}

}  // namespace
}  // namespace mtf::testing
