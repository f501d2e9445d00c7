// SPDX-License-Identifier: Apache-2.0
//
// A layer of experts in which each token goes to its two best experts within
// their capacity: the ranking and the running counts of the router give the
// same training under every layout of four devices.
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "backends/backend.h"
#include "backends/communicator.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/lower.h"
#include "mtf/graph.h"
#include "mtf/status.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/one_hot.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/top_k.h"
#include "ops/variable.h"
#include "tests/backends/fused_for.h"
#include "tests/matchers.h"

namespace mtf::testing {
namespace {

constexpr int kSteps = 12;

// Four devices divide few of these sizes. A choice beyond the capacity of its
// expert is dropped, here about one in five.
const Dimension kBatch{"batch", 3}, kLength{"length", 10}, kModel{"d_model", 6},
    kExpert{"expert", 5}, kHidden{"d_ff", 7}, kChoice{"choice", 2},
    kCapacity{"capacity", 4};

struct Router {
  Tensor x, target, loss, step;
  Tensor chosen;  // experts of each token
  Tensor slot;    // of each choice among those of its expert
};

Router BuildRouter(Graph& graph) {
  Router router;
  std::vector<Tensor> weights;
  const auto weight = [&](const char* name, Shape shape) {
    weights.push_back(
        Variable(graph, name,
                 RandomUniform(graph, shape, -0.7, 0.7, {.per_step = false})));
    return weights.back();
  };
  router.x = Input(graph, "x", kFloat32, {kBatch, kLength, kModel});
  router.target = Input(graph, "target", kFloat32, {kBatch, kLength, kModel});
  const Tensor scores =
      Exp(Einsum({router.x, weight("router", {kModel, kExpert})},
                 {kBatch, kLength, kExpert}));
  const Tensor gates = scores / ReduceSum(scores, {kBatch, kLength});
  const TopKResult top = TopK(gates, "expert", kChoice);
  router.chosen = top.indices;
  const Tensor share = top.values / ReduceSum(top.values, {kBatch, kLength});
  // The first choices of all tokens come before the second ones.
  const Tensor taken = OneHot(top.indices, kExpert);
  const Tensor of_choice = ReduceSum(taken, {kBatch, kChoice, kExpert});
  const Tensor before = CumulativeSum(taken, "length", {.exclusive = true}) +
                        CumulativeSum(of_choice, "choice", {.exclusive = true});
  router.slot =
      Cast(ReduceSum(before * taken, {kBatch, kLength, kChoice}), kInt32);
  const Tensor seat = OneHot(router.slot, kCapacity);
  const Tensor send =
      Einsum({taken, seat}, {kBatch, kLength, kExpert, kCapacity});
  const Tensor weigh =
      Einsum({share, taken, seat}, {kBatch, kLength, kExpert, kCapacity});
  const Tensor in =
      Einsum({send, router.x}, {kBatch, kExpert, kCapacity, kModel});
  const Tensor hidden =
      Tanh(Einsum({in, weight("up", {kExpert, kModel, kHidden})},
                  {kBatch, kExpert, kCapacity, kHidden}));
  const Tensor out =
      Einsum({hidden, weight("down", {kExpert, kHidden, kModel})},
             {kBatch, kExpert, kCapacity, kModel});
  const Tensor y = Einsum({weigh, out}, {kBatch, kLength, kModel});
  router.loss = ReduceMean(Square(y - router.target), {});
  const std::vector<Tensor> gradients = Gradients(router.loss, weights);
  std::vector<Tensor> updates;
  for (size_t i = 0; i < weights.size(); ++i) {
    updates.push_back(Assign(weights[i], weights[i] - gradients[i] * 0.5));
  }
  router.step = Group(graph, updates);
  return router;
}

struct RouterRun {
  std::vector<double> losses;
  std::vector<HostTensor> chosen, slots;
};

HostTensor Numbers(const Shape& shape, int seed) {
  std::vector<double> numbers(shape.num_elements());
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = std::sin(1.7 * static_cast<double>(i) + seed);
  }
  return HostTensor::FromDoubles(shape, kFloat32, numbers);
}

absl::StatusOr<RouterRun> Train(const std::string& mesh_text,
                                const std::string& layout) {
  Graph graph;
  const Router router = BuildRouter(graph);
  MTF_RETURN_IF_ERROR(graph.status());
  MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse(mesh_text));
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules,
                       LayoutRules::Parse(layout, "layout"));
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayout(graph, mesh, rules));
  MTF_ASSIGN_OR_RETURN(const Program initialize,
                       Lower(graph, binding, {.initialize = true}));
  MTF_ASSIGN_OR_RETURN(
      const Program step,
      Lower(graph, binding,
            {.fetches = {router.loss, router.chosen, router.slot},
             .updates = {router.step}}));
  RouterRun run;
  MTF_RETURN_IF_ERROR(LocalRanks(mesh).Run([&](Communicator& ranks)
                                               -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                         CreateDevice("cpu", {.num_threads = 1}));
    VariableStore store(*device);
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> first,
                         Executor::Create(initialize, *device, ranks, store));
    const Program fused = FusedFor(*device, step);
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> next,
                         Executor::Create(fused, *device, ranks, store));
    std::map<std::string, HostTensor> out;
    MTF_RETURN_IF_ERROR(first->Run({}, 3, 0, &out));
    for (int i = 0; i < kSteps; ++i) {
      const Shape shape = router.x.shape();
      MTF_RETURN_IF_ERROR(next->Run({{"x", Numbers(shape, i % 3)},
                                     {"target", Numbers(shape, i % 3 + 50)}},
                                    3, static_cast<uint32_t>(i), &out));
      if (ranks.rank() != 0) continue;
      run.losses.push_back(*out[router.loss.name()].At(0));
      run.chosen.push_back(out[router.chosen.name()]);
      run.slots.push_back(out[router.slot.name()]);
    }
    return absl::OkStatus();
  }));
  return run;
}

// Shards each dimension over all devices, and each pair over two devices each.
std::vector<std::pair<std::string, std::string>> Layouts() {
  const Dimension dims[] = {kBatch,  kLength, kModel,   kExpert,
                            kHidden, kChoice, kCapacity};
  std::vector<std::pair<std::string, std::string>> layouts;
  for (const Dimension& a : dims) {
    layouts.push_back({"x:4", absl::StrCat(a.name, ":x")});
    layouts.push_back({"x:2,y:2", absl::StrCat(a.name, ":x+y")});
    for (const Dimension& b : dims) {
      if (a == b) continue;
      layouts.push_back(
          {"x:2,y:2", absl::StrCat(a.name, ":x, ", b.name, ":y")});
    }
  }
  return layouts;
}

TEST(ExpertRouter, TrainsTheSameUnderEveryLayoutOfFourDevices) {
  const absl::StatusOr<RouterRun> one = Train("x:1", "");
  ASSERT_OK(one);
  EXPECT_LT(one->losses.back(), one->losses.front());
  // Some choices are dropped, and some tokens change their experts.
  int dropped = 0, changed = 0;
  for (const HostTensor& slots : one->slots) {
    for (double slot : slots.ToDoubles()) dropped += slot >= kCapacity.size;
  }
  for (int64_t i = 0; i < one->chosen[0].num_elements(); ++i) {
    changed += *one->chosen.front().At(i) != *one->chosen.back().At(i);
  }
  EXPECT_GT(dropped, kSteps);
  EXPECT_GT(changed, 5);
  for (const auto& [mesh, layout] : Layouts()) {
    SCOPED_TRACE(absl::StrCat(mesh, " ", layout));
    const absl::StatusOr<RouterRun> run = Train(mesh, layout);
    ASSERT_OK(run);
    for (int step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(run->losses[step], one->losses[step],
                  1e-4 * one->losses[step]);
      EXPECT_TRUE(run->chosen[step] == one->chosen[step]) << "step " << step;
      EXPECT_TRUE(run->slots[step] == one->slots[step]) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace mtf::testing
