// SPDX-License-Identifier: Apache-2.0
//
// The NCCL communicator over a fake library: groups, errors, ranks on one GPU.
#include "backends/cuda/communicators/nccl.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/check.h"
#include "mtf/status.h"
#include "tests/backends/communicators/collective_checks.h"
#include "tests/backends/cuda/fake_nccl.h"
#include "tests/matchers.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using testing::FakeFabric;
using ::testing::HasSubstr;
using testing::MakeFakeGpu;

Mesh ParseMesh(const std::string& text) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
  MTF_CHECK_OK(mesh.status());
  return *std::move(mesh);
}

// Ranks as threads, each with its own GPU unless uuids say otherwise.
class Processes {
 public:
  Processes(const std::string& mesh, FakeFabric& fabric,
            std::vector<std::string> uuids = {})
      : fabric_(fabric),
        uuids_(std::move(uuids)),
        mesh_(ParseMesh(mesh)),
        ranks_(mesh_),
        connections_(mesh_.num_devices()) {}

  absl::Status Connect() {
    return ranks_.Run([&](Communicator& host) -> absl::Status {
      const auto rank = static_cast<int>(host.rank());
      const std::string uuid =
          uuids_.empty() ? absl::StrCat("GPU-", rank) : uuids_[rank];
      MTF_ASSIGN_OR_RETURN(connections_[rank],
                           ConnectNccl(MakeFakeGpu(fabric_, rank, uuid), host));
      return absl::OkStatus();
    });
  }
  absl::Status Run(const std::function<absl::Status(Connection&)>& body) {
    return ranks_.Run(
        [&](Communicator& host) { return body(*connections_[host.rank()]); });
  }

 private:
  FakeFabric& fabric_;
  const std::vector<std::string> uuids_;
  const Mesh mesh_;
  LocalRanks ranks_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

class NcclOnMesh : public ::testing::TestWithParam<const char*> {};

TEST_P(NcclOnMesh, EveryCollectiveOverEveryGroup) {
  FakeFabric fabric;
  Processes processes(GetParam(), fabric);
  ASSERT_OK(processes.Connect());
  EXPECT_OK(processes.Run([](Connection& connection) {
    return mtf::testing::CheckCommunicator(connection, 311);
  }));
}

INSTANTIATE_TEST_SUITE_P(Meshes, NcclOnMesh,
                         ::testing::Values("x:1", "x:2", "x:2,y:2",
                                           "x:2,y:1,z:3"));

TEST(Nccl, AsynchronousErrorsAreReportedAtSynchronize) {
  FakeFabric fabric;
  Processes processes("x:2,y:2", fabric);
  ASSERT_OK(processes.Connect());
  fabric.stuck = 2;
  EXPECT_THAT(processes.Run([&](Connection& connection) -> absl::Status {
    EXPECT_TRUE(connection.can_wait_forever());
    return connection.Synchronize();
  }),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("remote process exited")));
}

// Without recordings the work runs in each step.
TEST(Nccl, StepsRunWithoutRecordings) {
  FakeFabric fabric;
  Processes processes("x:2", fabric);
  ASSERT_OK(processes.Connect());
  std::vector<std::unique_ptr<Replay>> replays(2);
  std::vector<int> runs(2);
  for (int step = 0; step < 3; ++step) {
    ASSERT_OK(processes.Run([&](Connection& connection) {
      int& mine = runs[connection.rank()];
      return connection.RunOrReplay(
          [&] {
            ++mine;
            return absl::OkStatus();
          },
          replays[connection.rank()]);
    }));
  }
  EXPECT_EQ(runs, (std::vector<int>{3, 3}));
}

// Runs a segment `steps` times; returns how often each rank did the work.
absl::StatusOr<std::vector<int>> RunSteps(
    Processes& processes, int steps,
    std::vector<std::unique_ptr<Replay>>& replays) {
  std::vector<int> runs(replays.size());
  for (int step = 0; step < steps; ++step) {
    MTF_RETURN_IF_ERROR(processes.Run([&](Connection& connection) {
      int& mine = runs[connection.rank()];
      return connection.RunOrReplay(
          [&] {
            ++mine;
            return absl::OkStatus();
          },
          replays[connection.rank()]);
    }));
  }
  return runs;
}

TEST(Nccl, SecondStepIsRecordedAndReplayedByAll) {
  FakeFabric fabric;
  fabric.records = true;
  Processes processes("x:3", fabric);
  ASSERT_OK(processes.Connect());
  std::vector<std::unique_ptr<Replay>> replays(3);
  const absl::StatusOr<std::vector<int>> runs = RunSteps(processes, 4, replays);
  ASSERT_OK(runs);
  EXPECT_EQ(*runs, (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(fabric.replays, 9);
}

// NCCL requires collectives that are replayed together to be recorded together,
// so a rank without a recording keeps the others from replaying.
TEST(Nccl, RankThatCannotRecordKeepsAllFromReplaying) {
  for (int rank : {0, 1, 2}) {
    FakeFabric fabric;
    fabric.records = true;
    fabric.fails_to_record = rank;
    Processes processes("x:3", fabric);
    ASSERT_OK(processes.Connect());
    std::vector<std::unique_ptr<Replay>> replays(3);
    EXPECT_THAT(RunSteps(processes, 2, replays).status(),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("no memory for a recording")));
    EXPECT_EQ(fabric.replays, 0);
    // All ranks are still at the stage before the recording.
    fabric.fails_to_record = -1;
    const absl::StatusOr<std::vector<int>> runs =
        RunSteps(processes, 2, replays);
    ASSERT_OK(runs);
    EXPECT_EQ(*runs, (std::vector<int>{1, 1, 1}));
    EXPECT_EQ(fabric.replays, 6);
  }
}

TEST(Nccl, FailureToJoinIsReportedToAllRanks) {
  for (int rank : {0, 1, 2}) {
    FakeFabric fabric;
    fabric.fails_to_join = rank;
    Processes processes("x:3", fabric);
    EXPECT_THAT(processes.Connect(),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("no route to the others")));
  }
}

TEST(Nccl, FailureToSplitIsReportedToAllRanks) {
  FakeFabric fabric;
  Processes processes("x:2,y:2", fabric);
  ASSERT_OK(processes.Connect());
  fabric.fails_to_split = 1;
  EXPECT_THAT(processes.Run([](Connection& connection) {
    return connection.GroupOver({0}).status();
  }),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("a rank did not come")));
  fabric.fails_to_split = -1;
  EXPECT_OK(processes.Run([](Connection& connection) {
    return connection.GroupOver({0}).status();
  }));
}

TEST(Nccl, TwoRanksOnOneGpuAreAnErrorWithARemedy) {
  FakeFabric fabric;
  Processes processes("x:3", fabric, {"GPU-a", "GPU-b", "GPU-a"});
  EXPECT_THAT(
      processes.Connect(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("ranks 0 and 2 share one GPU, which NCCL "
                               "refuses\n"),
                     HasSubstr("GPU-a"), HasSubstr("without a launcher"),
                     HasSubstr("NCCL_HOSTID"))));
}

TEST(CheckOwnGpus, SettingsThatNcclAcceptsAreAccepted) {
  const GpuSeat a = {"m", "GPU-a", "", false};
  const GpuSeat b = {"m", "GPU-b", "", false};
  const GpuSeat elsewhere = {"n", "GPU-a", "", false};
  const GpuSeat unknown = {"m", "", "", false};
  EXPECT_OK(CheckOwnGpus({a, b, elsewhere, unknown, unknown}));
  EXPECT_FALSE(CheckOwnGpus({b, a, a}).ok());
  const GpuSeat one = {"m", "GPU-a", "1", false};
  const GpuSeat two = {"m", "GPU-a", "2", false};
  EXPECT_OK(CheckOwnGpus({one, two}));
  EXPECT_FALSE(CheckOwnGpus({one, one}).ok());
  EXPECT_FALSE(CheckOwnGpus({one, a}).ok());
  GpuSeat shares = a;
  shares.may_share = true;
  EXPECT_OK(CheckOwnGpus({shares, shares}));
  EXPECT_FALSE(CheckOwnGpus({shares, a}).ok());
  // Seats are exchanged as text.
  const GpuSeat again = GpuSeat::FromText(two.ToText());
  EXPECT_EQ(again.ToText(), two.ToText());
  EXPECT_EQ(again.host_id, "2");
}

}  // namespace
}  // namespace mtf::cuda
