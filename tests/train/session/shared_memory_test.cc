// SPDX-License-Identifier: Apache-2.0
//
// Programs that share the memory of a session give the results that they give
// alone, also on a device that replays recorded steps, in whatever order the
// memory grows. session_devices/ tests the bytes.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

class SharedMemory : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Dimension batch{"batch", 12}, io{"io", 7}, hidden{"hidden", 9};
    const Tensor x = Input(graph_, "x", kFloat32, {batch, io});
    const Tensor w = Variable(
        graph_, "w",
        RandomUniform(graph_, {io, hidden}, -1, 1, {.per_step = false}));
    norm_ = ReduceSum(Square(w), {});
    const Tensor h = Einsum({x, w}, {batch, hidden});
    outputs_ = Square(h);
    loss_ = ReduceMean(outputs_, {});
    step_ = {Assign(w, w - 0.1 * Gradients(loss_, {w})[0])};
    std::vector<double> values;
    for (int i = 0; i < 12 * 7; ++i) values.push_back(0.01 * (i % 13) - 0.05);
    feeds_["x"] = HostTensor::FromDoubles({batch, io}, kFloat32, values);
  }

  std::unique_ptr<Session> MakeSession() {
    SessionOptions options;
    options.backend = GetParam();
    auto session = Session::Create(graph_, "data:2,model:2",
                                   "batch:data,hidden:model", options);
    EXPECT_OK(session);
    if (!session.ok()) return nullptr;
    EXPECT_OK((*session)->Initialize());
    return *std::move(session);
  }
  std::vector<HostTensor> Run(Session& session, const RunRequest& request) {
    auto values = session.Run(request);
    EXPECT_OK(values);
    return values.ok() ? *std::move(values) : std::vector<HostTensor>();
  }

  Graph graph_;
  Tensor norm_, outputs_, loss_;
  std::vector<Tensor> step_;
  std::map<std::string, HostTensor> feeds_;
};

TEST_P(SharedMemory, ProgramsGiveTheirOwnResults) {
  const RunRequest norm = {.fetches = {norm_}};
  const RunRequest evaluate = {.feeds = feeds_, .fetches = {outputs_, loss_}};
  const RunRequest train = {
      .feeds = feeds_, .fetches = {loss_}, .updates = step_};
  const std::unique_ptr<Session> alone = MakeSession(), mixed = MakeSession();
  ASSERT_TRUE(alone != nullptr && mixed != nullptr);
  // Five steps: a device that replays runs plainly, records, replays.
  std::vector<std::vector<HostTensor>> losses, norms, outputs;
  for (int step = 0; step < 5; ++step) {
    losses.push_back(Run(*alone, train));
  }
  for (int step = 0; step < 5; ++step) {
    norms.push_back(Run(*mixed, norm));
    outputs.push_back(Run(*mixed, evaluate));
    EXPECT_EQ(Run(*mixed, train), losses[step]) << "step " << step;
    EXPECT_EQ(outputs.back()[1], losses[step][0]) << "step " << step;
  }
  // The same values again, each by a session in which nothing else has run.
  for (int steps = 0; steps < 5; ++steps) {
    const std::unique_ptr<Session> fresh = MakeSession();
    for (int step = 0; step < steps; ++step) Run(*fresh, train);
    EXPECT_EQ(Run(*fresh, norm), norms[steps]) << "after step " << steps;
    EXPECT_EQ(Run(*fresh, evaluate), outputs[steps]) << "after step " << steps;
  }
}

TEST_P(SharedMemory, InitializationRunsAgainAfterOtherPrograms) {
  const RunRequest train = {
      .feeds = feeds_, .fetches = {loss_}, .updates = step_};
  const std::unique_ptr<Session> session = MakeSession();
  ASSERT_NE(session, nullptr);
  const std::vector<HostTensor> first = Run(*session, train);
  EXPECT_NE(Run(*session, train), first);
  ASSERT_OK(session->Initialize());
  EXPECT_EQ(Run(*session, train), first);
}

INSTANTIATE_TEST_SUITE_P(Devices, SharedMemory,
                         ::testing::Values("cpu", "reference",
                                           "cuda_emulated"));

}  // namespace
}  // namespace mtf::train
