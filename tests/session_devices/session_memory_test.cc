// SPDX-License-Identifier: Apache-2.0
//
// The memory of a session: its variables, and one arena for all its programs.
#include <algorithm>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "planning/cost/lifetimes.h"
#include "tests/matchers.h"
#include "tests/session_devices/allocated_bytes.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::mtf::internal::MemoryBytes;
using ::mtf::testing::AllocatedBytes;

class SessionMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    const Dimension batch{"batch", 50}, io{"io", 30}, hidden{"hidden", 70};
    const Tensor x = Input(graph_, "x", kFloat32, {batch, io});
    const auto weights = [&](const char* name, const Shape& shape) {
      return Variable(graph_, name,
                      RandomUniform(graph_, shape, -1, 1, {.per_step = false}));
    };
    const Tensor w = weights("w", {io, hidden});
    const Tensor v = weights("v", {hidden});
    small_ = ReduceSum(Square(v), {});
    const Tensor h = Square(Einsum({x, w}, {batch, hidden}));
    loss_ = ReduceMean(Einsum({h, v}, {batch}), {});
    const std::vector<Tensor> gradients = Gradients(loss_, {w, v});
    step_ = {Assign(w, w - 0.1 * gradients[0]),
             Assign(v, v - 0.1 * gradients[1])};
    feeds_["x"] = HostTensor::FromDoubles(Shape{batch, io}, kFloat32,
                                          std::vector<double>(50 * 30, 0.25));
    before_ = AllocatedBytes::Get().now();
    auto session = Session::Create(graph_, "data:1", "", {.backend = "logged"});
    ASSERT_OK(session);
    session_ = *std::move(session);
    AllocatedBytes::Get().TakeMost();
    ASSERT_OK(session_->Initialize());
  }

  int64_t Allocated() const { return AllocatedBytes::Get().now() - before_; }
  RunRequest Small() const { return {.fetches = {small_}}; }
  RunRequest Train() const {
    return {.feeds = feeds_, .fetches = {loss_}, .updates = step_};
  }
  int64_t Planned(const RunRequest& request) {
    const auto program = session_->ProgramOf(request);
    EXPECT_OK(program);
    return program.ok() ? MemoryBytes(**program) : 0;
  }

  static constexpr int64_t kVariables = (30 * 70 + 70) * 4;
  Graph graph_;
  Tensor small_, loss_;
  std::vector<Tensor> step_;
  std::map<std::string, HostTensor> feeds_;
  int64_t before_ = 0;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionMemory, InitializationLeavesTheVariables) {
  EXPECT_GT(AllocatedBytes::Get().TakeMost() - before_, kVariables);
  EXPECT_EQ(Allocated(), kVariables);
}

TEST_F(SessionMemory, AProgramTakesWhatItsPlanStates) {
  ASSERT_OK(session_->Run(Train()));
  EXPECT_EQ(Allocated(), Planned(Train()));
  EXPECT_GT(Allocated(), kVariables + 50 * 70 * 4);
}

TEST_F(SessionMemory, ProgramsShareTheLargestArena) {
  ASSERT_OK(session_->Run(Small()));
  EXPECT_EQ(Allocated(), kVariables + 64);
  AllocatedBytes::Get().TakeMost();
  ASSERT_OK(session_->Run(Train()));
  const int64_t largest = Planned(Train());
  EXPECT_EQ(Allocated(), largest);
  ASSERT_OK(session_->Run(Small()));
  ASSERT_OK(session_->Run(Train()));
  EXPECT_EQ(Allocated(), largest);
  EXPECT_EQ(AllocatedBytes::Get().TakeMost() - before_, largest)
      << "the smaller arena is freed first";
}

// The arena has other contents and, once it has grown, another address.
TEST_F(SessionMemory, ResultsDoNotDependOnOtherPrograms) {
  const auto alone = Session::Create(graph_, "data:1", "", {.backend = "cpu"});
  ASSERT_OK(alone);
  ASSERT_OK((*alone)->Initialize());
  for (int step = 0; step < 3; ++step) {
    const auto small = session_->Run(Small());
    const auto mixed = session_->Run(Train());
    const auto expected = (*alone)->Run(Train());
    ASSERT_OK(small);
    ASSERT_OK(mixed);
    ASSERT_OK(expected);
    EXPECT_EQ((*mixed)[0], (*expected)[0]);
    ASSERT_OK(session_->Initialize());
    ASSERT_OK((*alone)->Initialize());
  }
}

}  // namespace
}  // namespace mtf::train
