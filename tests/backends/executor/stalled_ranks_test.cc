// SPDX-License-Identifier: Apache-2.0
//
// The error of a timeout names the rank that is missing, and its position.
#include "backends/executor/stalled_ranks.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/communicators/wait_options.h"
#include "backends/executor/executor.h"
#include "lowering/lower.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(RankPosition, FitsIntoAWord) {
  for (const RankPosition& position :
       {RankPosition{}, RankPosition{1, 0, 0, false},
        RankPosition{3, 12, 118, true},
        RankPosition{16383, 16777215, 33554431, true}}) {
    EXPECT_EQ(RankPosition::Unpack(position.Pack()), position);
  }
  // The step wraps around.
  EXPECT_EQ(RankPosition::Unpack(RankPosition{1, 1 << 24, 5, true}.Pack()),
            (RankPosition{1, 0, 5, true}));
}

TEST(RanksText, RangesAreJoined) {
  EXPECT_EQ(RanksText({3}), "rank 3");
  EXPECT_EQ(RanksText({0, 1}), "ranks 0-1");
  EXPECT_EQ(RanksText({0, 2, 3, 4, 9}), "ranks 0, 2-4, 9");
  EXPECT_EQ(RanksText({0, 2, 4, 6, 8, 10, 12, 14}),
            "ranks 0, 2, 4, 6, 8, 10 and 2 more");
}

// A program of two collectives over the axes of a mesh: a sum over "model",
// then one over "data".
Program TwoSums(Graph& graph, const std::string& mesh) {
  const Dimension batch{"batch", 8}, hidden{"hidden", 8};
  const Tensor x = Input(graph, "x", kFloat32, {batch, hidden});
  const Tensor rows = Tanh(ReduceSum(x, {batch}));
  const Tensor sum = ReduceSum(rows, {});
  const absl::StatusOr<LayoutBinding> binding =
      BindLayout(graph, *Mesh::Parse(mesh),
                 *LayoutRules::Parse("batch:data, hidden:model", "test"));
  EXPECT_OK(binding);
  absl::StatusOr<Program> program = Lower(graph, *binding, {.fetches = {sum}});
  EXPECT_OK(program);
  return *std::move(program);
}

void Sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Waits until the condition holds, for at most a minute.
template <class Condition>
void WaitUntil(const Condition& condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) Sleep(0.01);
}

// Ranks that run a program step by step. A rank for which `is_late` waits until
// another one has timed out.
absl::Status RunSteps(
    const std::string& mesh, double timeout, int steps,
    const std::function<bool(int64_t rank, int step)>& is_late) {
  Graph graph;
  const Program program = TwoSums(graph, mesh);
  SetCollectiveTimeout(timeout);
  LocalRanks ranks(program.mesh);
  SetCollectiveTimeout(-1);
  std::atomic<bool> gave_up = false;
  return ranks.Run([&](Communicator& communicator) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                         CreateDevice("reference", {}));
    VariableStore variables(*device);
    MTF_ASSIGN_OR_RETURN(
        const std::unique_ptr<Executor> executor,
        Executor::Create(program, *device, communicator, variables));
    const HostTensor x({{"batch", 8}, {"hidden", 8}}, kFloat32);
    for (int step = 0; step < steps; ++step) {
      if (is_late(communicator.rank(), step)) {
        WaitUntil([&] { return gave_up.load(); });
      }
      std::map<std::string, HostTensor> outputs;
      const absl::Status status = executor->Run({{"x", x}}, 0, step, &outputs);
      if (!status.ok()) gave_up = true;
      MTF_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  });
}

// Ranks that each run the steps `steps_of(rank)` of a program.
absl::Status RunStepsOf(
    const std::string& mesh,
    const std::function<std::vector<int>(int64_t rank)>& steps_of) {
  Graph graph;
  const Program program = TwoSums(graph, mesh);
  LocalRanks ranks(program.mesh);
  return ranks.Run([&](Communicator& communicator) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                         CreateDevice("reference", {}));
    VariableStore variables(*device);
    MTF_ASSIGN_OR_RETURN(
        const std::unique_ptr<Executor> executor,
        Executor::Create(program, *device, communicator, variables));
    const HostTensor x({{"batch", 8}, {"hidden", 8}}, kFloat32);
    for (int step : steps_of(communicator.rank())) {
      std::map<std::string, HostTensor> outputs;
      MTF_RETURN_IF_ERROR(executor->Run({{"x", x}}, 0, step, &outputs));
    }
    return absl::OkStatus();
  });
}

TEST(DisagreeingRanks, AnotherStepIsAnErrorThatNamesTheCollective) {
  for (const char* mesh : {"model:3", "data:1,model:3", "data:2,model:2"}) {
    EXPECT_THAT(
        RunStepsOf(mesh,
                   [](int64_t rank) {
                     return rank == 1 ? std::vector<int>{0, 1, 3}
                                      : std::vector<int>{0, 1, 2};
                   }),
        StatusIs(absl::StatusCode::kAborted,
                 AllOf(StartsWith("rank 1 runs step 3 of program 1, where rank "
                                  "0 runs step 2\n"),
                       ContainsRegex("\n  here     rank [0-9] is at 1, "
                                     "all_reduce of reduce_sum over model "
                                     "\\(stalled_ranks_test.cc:[0-9]+\\)"))));
  }
}

TEST(DisagreeingRanks, AStepLessIsAnError) {
  for (const char* mesh : {"model:2", "data:2,model:2"}) {
    EXPECT_THAT(RunStepsOf(mesh,
                           [](int64_t rank) {
                             return rank == 1 ? std::vector<int>{0, 1}
                                              : std::vector<int>{0, 1, 2};
                           }),
                StatusIs(absl::StatusCode::kAborted,
                         // Ranks 0 and 3 both wait for rank 1, over one axis
                         // each, and either may be the first to notice.
                         ContainsRegex("^rank 1 has ended, where rank [03] "
                                       "runs step 2 of program 1\n")));
  }
}

TEST(DisagreeingRanks, AStepMoreIsAnError) {
  EXPECT_THAT(RunStepsOf("model:3",
                         [](int64_t rank) {
                           return rank == 2 ? std::vector<int>{0, 1, 2}
                                            : std::vector<int>{0, 1};
                         }),
              StatusIs(absl::StatusCode::kAborted,
                       ContainsRegex("^rank [01] has ended, where rank 2 runs "
                                     "step 2 of program 1\n")));
}

TEST(StalledRanks, AMissingRankIsNamedWithItsPosition) {
  const absl::Status status =
      RunSteps("model:4", 2, 10,
               [](int64_t rank, int step) { return rank == 3 && step == 7; });
  EXPECT_THAT(
      status,
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(ContainsRegex(
                         "^rank 3 is after 1, all_reduce of reduce_sum over "
                         "model \\(stalled_ranks_test.cc:[0-9]+\\) of step 6; "
                         "the others are at 1, all_reduce of reduce_sum over "
                         "model \\(stalled_ranks_test.cc:[0-9]+\\)\n"),
                     HasSubstr("\n  waited   rank "),
                     HasSubstr(" waited 2 s for rank 3 to join all_reduce "
                               "sum of f32 x 8 in 1 buffer\n"),
                     HasSubstr("\n  step     7\n"),
                     HasSubstr("\n  mesh     \"model:4\"\n"),
                     HasSubstr("--collective_timeout"))));
}

TEST(StalledRanks, RanksThatWaitForWaitingRanksAreReportedToo) {
  const absl::Status status =
      RunSteps("data:2,model:2", 2, 10,
               [](int64_t rank, int step) { return rank == 3 && step == 7; });
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(StartsWith("rank 3 is after 2, all_reduce of "),
                             HasSubstr("; rank 2 is at 1, all_reduce of "),
                             HasSubstr("; ranks 0-1 are at 2, all_reduce of "),
                             Not(HasSubstr("the other")))));
}

TEST(StalledRanks, ARankThatHasNotStartedIsReported) {
  EXPECT_THAT(
      RunSteps("model:2", 0.5, 1, [](int64_t rank, int) { return rank == 0; }),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               StartsWith("rank 0 is not in a program yet; the other "
                          "is at 1, all_reduce of ")));
}

TEST(StalledRanks, SlowRanksWithinTheLimitAreWaitedFor) {
  EXPECT_OK(RunSteps("model:4", 60, 3, [](int64_t rank, int step) {
    if (rank == step) Sleep(0.05);
    return false;
  }));
  EXPECT_OK(RunSteps("model:2", 0, 2, [](int64_t rank, int) {
    if (rank == 1) Sleep(0.2);  // 0 waits forever
    return false;
  }));
}

TEST(StalledRanksDeathTest, ARankThatNeverReturnsEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      (void)RunSteps("model:3", 2, 3,
                     [](int64_t rank, int step) {
                       if (rank == 1 && step == 2) Sleep(1000);
                       return false;
                     }),
      ::testing::ExitedWithCode(75),
      "DEADLINE_EXCEEDED rank 1 is after 1, all_reduce of reduce_sum over "
      "model .*the others are at 1");
}

// A rank that has published that it is at a collective, and then stops.
TEST(StalledRanks, ARankThatStopsWithinACollectiveIsNamedFirst) {
  Graph graph;
  const Program program = TwoSums(graph, "model:3");
  SetCollectiveTimeout(0.3);
  LocalRanks ranks(program.mesh);
  SetCollectiveTimeout(-1);
  AxisList model;
  model.push_back(0);
  std::atomic<int> shown = 0, gave_up = 0;
  const absl::Status status =
      ranks.Run([&](Communicator& communicator) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(const Communicator::Group* const group,
                             communicator.GroupOver(model));
        const RankPosition at_first = {1, 4, 1, true};
        communicator.SetPosition(at_first);
        ++shown;
        if (communicator.rank() == 1) {
          WaitUntil([&] { return gave_up == 2; });
          return absl::OkStatus();
        }
        WaitUntil([&] { return shown == 3; });
        std::vector<float> x(8, 1);
        const absl::Status timeout = communicator.AllReduce(
            *group, {{x.data(), x.data(), 8}}, kFloat32, ReduceKind::kSum);
        const absl::Status named =
            NameStalledRanks(timeout, program, at_first, communicator);
        ++gave_up;
        return named;
      });
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(ContainsRegex("^rank 1 has not joined 1, "
                                           "all_reduce of reduce_sum over "
                                           "model \\(stalled_ranks_test.cc:"
                                           "[0-9]+\\), which all have begun\n"),
                             HasSubstr(" waited 0.3 s for rank 1 to join"))));
}

// Ranks some of which are on another host.
class OtherHosts : public Communicator {
 public:
  explicit OtherHosts(const Mesh& mesh) : Communicator(mesh, 0) {
    std::vector<RankPositionSlot*> slots(size(), nullptr);
    slots[0] = &slots_[0];
    slots[1] = &slots_[1];
    KeepPositions(slots);
  }
  RankPositionSlot& slot(int i) { return slots_[i]; }

  absl::StatusOr<StepError> Agree(const StepError& error) override {
    return error;
  }
  absl::Status Barrier() override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<std::string>> AllGatherText(
      const std::string& text) override {
    return std::vector<std::string>(size(), text);
  }

 protected:
  absl::Status OpenGroup(const Group&) override { return absl::OkStatus(); }
  absl::Status DoAllReduce(const Group&, absl::Span<const ReduceBuffer>, DType,
                           ReduceKind) override {
    return absl::OkStatus();
  }
  absl::Status DoAllGather(const Group&, const void*, void*, int64_t) override {
    return absl::OkStatus();
  }
  absl::Status DoReduceScatter(const Group&, const void*, void*, int64_t, DType,
                               ReduceKind) override {
    return absl::OkStatus();
  }
  absl::Status DoAllToAll(const Group&, const void*, void*, int64_t) override {
    return absl::OkStatus();
  }
  absl::Status DoPermute(const Group&, const void*, void*, int64_t, int64_t,
                         int64_t) override {
    return absl::OkStatus();
  }

 private:
  RankPositionSlot slots_[2];
};

TEST(StalledRanks, PositionsOnOtherHostsAreUnknown) {
  Graph graph;
  const Program program = TwoSums(graph, "data:2,model:2");
  OtherHosts communicator(program.mesh);
  const RankPosition here = {1, 4, 2, true};
  communicator.slot(1).word = RankPosition{1, 4, 1, false}.Pack();
  const absl::Status timeout =
      absl::DeadlineExceededError("rank 0 waited\n  help     wait");
  EXPECT_THAT(
      std::string(
          NameStalledRanks(timeout, program, here, communicator).message()),
      AllOf(StartsWith("rank 1 is after 1, all_reduce of "),
            HasSubstr("; rank 0 is at 2, all_reduce of "),
            HasSubstr("; ranks 2-3 are on other hosts, positions unknown\n"),
            HasSubstr("\n  waited   rank 0 waited\n"),
            ::testing::EndsWith("\n  help     wait")));
  // A rank that is known to be missing is not reported to be at the collective.
  absl::Status with_missing = timeout;
  with_missing.SetPayload(kMissingRanks, absl::Cord("1"));
  communicator.slot(1).word = here.Pack();
  EXPECT_THAT(
      std::string(NameStalledRanks(with_missing, program, here, communicator)
                      .message()),
      AllOf(ContainsRegex("^rank 1 has not joined 2, all_reduce of [^;]* over "
                          "[^;]*, which ranks 0-1 have begun; ranks 2-3 are on "
                          "other hosts"),
            HasSubstr("\n  waited   rank 0 waited\n")));
  EXPECT_THAT(
      std::string(
          NameStalledRanks(timeout, program, here, communicator).message()),
      StartsWith("ranks 0-1 are at 2, all_reduce of "));
  // A rank in another program, such as an evaluation.
  communicator.slot(1).word = RankPosition{2, 4, 1, true}.Pack();
  EXPECT_THAT(
      std::string(
          NameStalledRanks(timeout, program, here, communicator).message()),
      HasSubstr("rank 1 is in another program"));
}

TEST(StalledRanks, OtherErrorsAreUnchanged) {
  Graph graph;
  const Program program = TwoSums(graph, "model:2");
  OtherHosts communicator(program.mesh);
  for (const absl::Status& status :
       {absl::OkStatus(), absl::AbortedError("another rank failed")}) {
    EXPECT_EQ(NameStalledRanks(status, program, {}, communicator), status);
  }
}

TEST(StallWatchDeathTest, EndsAProcessThatWaitsForMessages) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        Graph graph;
        const Program program = TwoSums(graph, "data:2,model:2");
        OtherHosts communicator(program.mesh);
        StallWatch watch(program, 1, communicator, 0.2);
        communicator.SetPosition({1, 4, 2, true});
        Sleep(1000);
      },
      ::testing::ExitedWithCode(75),
      "DEADLINE_EXCEEDED .*rank 0 is at 2, all_reduce of .*ranks 2-3 are on "
      "other hosts");
}

TEST(StallWatch, IgnoresRanksThatAdvanceOrCompute) {
  Graph graph;
  const Program program = TwoSums(graph, "data:2,model:2");
  OtherHosts communicator(program.mesh);
  StallWatch watch(program, 1, communicator, 1);
  for (int i = 0; i < 20; ++i) {
    communicator.SetPosition({1, i, 2, true});
    Sleep(0.06);
  }
  communicator.SetPosition({1, 20, 2, false});  // computes
  Sleep(1.2);
  communicator.SetPosition({2, 20, 2, true});  // in a program of another watch
  Sleep(1.2);
}

}  // namespace
}  // namespace mtf
