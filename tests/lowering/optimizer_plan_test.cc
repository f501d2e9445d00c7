// SPDX-License-Identifier: Apache-2.0
//
// What optimizers communicate.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nn/layers/dense.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/muon.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "tests/lowering/lower_test_util.h"

namespace mtf::testing {
namespace {

constexpr int64_t kFloat = 4;
const Dimension kBatch{"batch", 8}, kIn{"in", 6}, kHidden{"hidden", 12};

// Two dense layers, "first" [in, hidden] and "last" [hidden, in], without
// biases. The loss is not reduced to a mean, so that it needs no all_reduce.
struct TwoLayers {
  Graph graph;
  Tensor loss, step;

  explicit TwoLayers(const nn::Optimizer& optimizer,
                     const nn::MinimizeOptions& options = {}) {
    const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIn});
    Tensor y = nn::Dense(x, {kIn}, {kHidden}, {.bias = false, .name = "first"});
    y = nn::Dense(y, {kHidden}, {kIn}, {.bias = false, .name = "last"});
    loss = ReduceSum(Square(y), {});
    step = optimizer.Minimize(loss, options);
  }
  std::string CostsOf(const std::string& mesh, const std::string& layout) {
    return Costs(LowerText(graph, mesh, layout, {.updates = {step}}));
  }
};

constexpr int64_t kKernel = 6 * 12 * kFloat;

TEST(OptimizerPlan, FrozenParametersAreNotCommunicated) {
  const std::string data = "batch:data";
  EXPECT_EQ(TwoLayers(nn::AdamW()).CostsOf("data:2", data),
            absl::StrCat("all_reduce data 1x ", 2 * kKernel, "\n"));
  const nn::Optimizer frozen =
      nn::AdamW({.groups = {{.parameters = "first", .frozen = true}}});
  const std::string one = absl::StrCat("all_reduce data 1x ", kKernel, "\n");
  EXPECT_EQ(TwoLayers(frozen).CostsOf("data:2", data), one);
  EXPECT_EQ(TwoLayers(nn::AdamW(), {.only = "last"}).CostsOf("data:2", data),
            one);
}

// Sums of gradients are sharded as the state, so that each device receives the
// gradients of its shard only.
TEST(OptimizerPlan, AccumulatedGradientsAreReduceScattered) {
  const nn::Optimizer optimizer = nn::AdamW({.accumulate_steps = 4});
  EXPECT_EQ(TwoLayers(optimizer).CostsOf("data:2", "batch:data"),
            absl::StrCat("all_reduce data 1x ", 2 * kKernel, "\n"));
  const std::string layout =
      "batch:data [parameters] hidden:data [optimizer] hidden:data";
  // Each device gathers the other half of the kernels for their use, and
  // receives its half of the sums of gradients.
  const std::string costs =
      absl::StrCat("all_gather data 2x ", kKernel, "\nreduce_scatter data 1x ",
                   kKernel, "\n");
  EXPECT_EQ(TwoLayers(nn::AdamW()).CostsOf("data:2", layout), costs);
  EXPECT_EQ(TwoLayers(optimizer).CostsOf("data:2", layout), costs);
}

// The average moves where the state is.
TEST(OptimizerPlan, MovingAveragesSendNothing) {
  for (const char* layout :
       {"batch:data",
        "batch:data [parameters] hidden:data [optimizer] hidden:data"}) {
    EXPECT_EQ(
        TwoLayers(nn::AdamW({.average_decay = 0.99})).CostsOf("data:2", layout),
        TwoLayers(nn::AdamW()).CostsOf("data:2", layout));
  }
}

// A network that reads averages sends what the network itself sends.
TEST(OptimizerPlan, AveragesAreGatheredAsParameters) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIn});
  const auto loss = [&x] {
    return ReduceSum(Square(nn::Dense(x, {kIn}, {kHidden}, {.bias = false})),
                     {});
  };
  Tensor trained, evaluated, averaged;
  {
    const Scope network(graph, "network");
    trained = loss();
  }
  nn::Sgd({.average_decay = 0.5}).Minimize(trained);
  {
    const Scope network(graph, "network", Scope::kReuse);
    evaluated = loss();
  }
  {
    const Scope network(graph, "network", Scope::kReuse);
    const AverageScope averages(graph);
    averaged = loss();
  }
  const auto costs = [&](Tensor fetch) {
    return Costs(
        LowerText(graph, "data:2",
                  "batch:data [parameters] hidden:data [optimizer] hidden:data",
                  {.fetches = {fetch}}));
  };
  EXPECT_EQ(costs(evaluated),
            absl::StrCat("all_reduce data 1x ", kFloat, "\nall_gather data 1x ",
                         kKernel / 2, "\n"));
  EXPECT_EQ(costs(averaged), costs(evaluated));
}

// With the larger side sharded, an iteration all_reduces the square over the
// smaller side; with the smaller side sharded, it gathers the matrix and the
// square. Besides, the norm of the momentum is reduced and the kernel gathered.
TEST(OptimizerPlan, IterationsOfMuon) {
  constexpr int64_t kSquare = 6 * 6 * kFloat;
  for (const int iterations : {1, 3}) {
    const nn::Optimizer muon = nn::Muon({.iterations = iterations});
    EXPECT_EQ(TwoLayers(muon, {.only = "first"})
                  .CostsOf("model:2", "[optimizer] hidden:model"),
              absl::StrCat("all_reduce model ", iterations + 1, "x ",
                           iterations * kSquare + kFloat,
                           "\nall_gather model 1x ", kKernel / 2, "\n"));
    EXPECT_EQ(
        TwoLayers(muon, {.only = "first"})
            .CostsOf("model:2", "[optimizer] in:model"),
        absl::StrCat("all_reduce model 1x ", kFloat, "\nall_gather model ",
                     2 * iterations + 1, "x ",
                     iterations * (kKernel + kSquare) / 2 + kKernel / 2, "\n"));
  }
}

}  // namespace
}  // namespace mtf::testing
