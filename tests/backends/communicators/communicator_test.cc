// SPDX-License-Identifier: Apache-2.0
// Build: -O1 (most of the time is spent in its own loops)
#include "backends/communicator.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <ostream>
#include <thread>
#include <vector>

#include "backends/communicators/group_barrier.h"
#include "backends/communicators/launcher.h"
#include "backends/communicators/reduce_in_order.h"
#include "mtf/check.h"
#include "tests/backends/communicators/collective_checks.h"
#include "tests/matchers.h"
#include "tests/requirements.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Mesh ParseMesh(const std::string& text) {
  absl::StatusOr<Mesh> mesh = Mesh::Parse(text);
  MTF_CHECK_OK(mesh.status());
  return *std::move(mesh);
}

AxisList AllAxes(const Mesh& mesh) {
  AxisList axes;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) axes.push_back(axis);
  return axes;
}

class LocalRanksOnMesh : public ::testing::TestWithParam<const char*> {};

TEST_P(LocalRanksOnMesh, EveryCollectiveOverEveryGroup) {
  const Mesh mesh = ParseMesh(GetParam());
  if (mesh.num_axes() == 3) SKIP_UNDER_THREAD_SANITIZER("a large mesh");
  LocalRanks ranks(mesh);
  EXPECT_OK(ranks.Run([](Communicator& communicator) {
    return testing::CheckCommunicator(communicator, 20011);
  }));
}

TEST_P(LocalRanksOnMesh, ManySmallCollectivesInARow) {
  LocalRanks ranks(ParseMesh(GetParam()));
  for (int run = 0; run < 3; ++run) {
    EXPECT_OK(ranks.Run([](Communicator& communicator) {
      return testing::CheckRepeats(communicator, 400);
    }));
  }
}

TEST_P(LocalRanksOnMesh, AFailedRankReleasesTheOthers) {
  const Mesh mesh = ParseMesh(GetParam());
  LocalRanks ranks(mesh);
  for (int64_t failing = 0; failing < mesh.num_devices(); ++failing) {
    std::atomic<int> aborted{0};
    EXPECT_THAT(ranks.Run([&](Communicator& communicator) -> absl::Status {
      MTF_ASSIGN_OR_RETURN(const auto* group,
                           communicator.GroupOver(AllAxes(mesh)));
      // The buffers end with the body, so sanitizers detect later reads.
      for (int i = 0;; ++i) {
        if (communicator.rank() == failing && i == 5) {
          return absl::OutOfRangeError("the reason");
        }
        std::vector<float> in(5000, 1.0f), out(5000);
        const Communicator::ReduceBuffer buffer = {in.data(), out.data(), 5000};
        const absl::Status status = communicator.AllReduce(
            *group, {buffer}, kFloat32, ReduceKind::kSum);
        if (status.code() == absl::StatusCode::kAborted) ++aborted;
        if (!status.ok()) return status;
      }
    }),
                StatusIs(absl::StatusCode::kOutOfRange, "the reason"));
    EXPECT_EQ(aborted, mesh.num_devices() - 1);
    EXPECT_OK(ranks.Run([](Communicator& communicator) {
      return testing::CheckRepeats(communicator, 20);
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, LocalRanksOnMesh,
                         ::testing::Values("x:1", "x:2", "x:3", "x:4",
                                           "x:2,y:2", "x:2,y:3", "x:1,y:3",
                                           "x:2,y:2,z:2", "x:8"));

TEST(LocalRanks, ARankWithoutMemoryReleasesTheOthers) {
  LocalRanks ranks(ParseMesh("data:3"));
  const absl::Status status =
      ranks.Run([](Communicator& communicator) -> absl::Status {
        if (communicator.rank() == 1) throw std::bad_alloc();
        return communicator.Barrier();
      });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("no memory on the host")));
  EXPECT_OK(ranks.Run(
      [](Communicator& communicator) { return communicator.Barrier(); }));
}

TEST(LocalRanks, AMeshWithoutAxesIsOneRank) {
  LocalRanks ranks{Mesh()};
  EXPECT_OK(ranks.Run([](Communicator& communicator) {
    return testing::CheckCommunicator(communicator, 100);
  }));
}

TEST(LocalRanks, SumsDoNotDependOnTheMessageSize) {
  // 0.1 + 0.2 + 0.3 differs from 0.3 + 0.2 + 0.1 in the last bit.
  LocalRanks ranks(ParseMesh("x:3"));
  EXPECT_OK(ranks.Run([](Communicator& communicator) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const auto* group, communicator.GroupOver({0}));
    const float mine = 0.1f * static_cast<float>(communicator.rank() + 1);
    const float sum = (0.1f + 0.2f) + 0.1f * 3.0f;
    for (int64_t count : {1, 100, 5000, 100000}) {
      std::vector<float> data(count, mine);
      const Communicator::ReduceBuffer buffer = {data.data(), data.data(),
                                                 count};
      MTF_RETURN_IF_ERROR(
          communicator.AllReduce(*group, {buffer}, kFloat32, ReduceKind::kSum));
      if (std::count(data.begin(), data.end(), sum) != count) {
        return absl::InternalError(absl::StrCat("a sum of ", count, " moved"));
      }
    }
    return absl::OkStatus();
  }));
}

TEST(LocalRanks, DifferentCallsAreAnErrorWithBothCalls) {
  LocalRanks ranks(ParseMesh("x:2"));
  const auto run = [&](auto of_rank_1) {
    return ranks.Run([&](Communicator& communicator) -> absl::Status {
      MTF_ASSIGN_OR_RETURN(const auto* group, communicator.GroupOver({0}));
      float data[8] = {}, out[16] = {};
      if (communicator.rank() == 1) {
        return of_rank_1(communicator, *group, data, out);
      }
      return communicator.AllReduce(*group, {{data, out, 8}}, kFloat32,
                                    ReduceKind::kSum);
    });
  };
  EXPECT_THAT(
      run([](Communicator& c, const auto& group, float* in, float* out) {
        return c.AllGather(group, in, out, 32);
      }),
      StatusIs(absl::StatusCode::kAborted,
               AllOf(HasSubstr("rank 0 calls all_reduce sum of f32 x 8 "
                               "in 1 buffer, rank 1 calls all_gather of "
                               "32 bytes"),
                     HasSubstr("ranks 0,1"))));
  EXPECT_THAT(
      run([](Communicator& c, const auto& group, float* in, float* out) {
        return c.AllReduce(group, {{in, out, 4}}, kFloat32, ReduceKind::kSum);
      }),
      StatusIs(absl::StatusCode::kAborted, HasSubstr("f32 x 4")));
  EXPECT_THAT(
      run([](Communicator& c, const auto& group, float* in, float* out) {
        return c.AllReduce(group, {{in, out, 8}}, kInt32, ReduceKind::kSum);
      }),
      StatusIs(absl::StatusCode::kAborted, HasSubstr("i32 x 8")));
  EXPECT_THAT(
      run([](Communicator& c, const auto& group, float* in, float* out) {
        return c.AllReduce(group, {{in, out, 8}}, kFloat32, ReduceKind::kMax);
      }),
      StatusIs(absl::StatusCode::kAborted, HasSubstr("all_reduce max")));
}

// Runs one all_reduce over two ranks at these positions.
absl::Status ReduceAt(LocalRanks& ranks, RankPosition first,
                      RankPosition second) {
  return ranks.Run([&](Communicator& communicator) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const auto* group, communicator.GroupOver({0}));
    communicator.SetPosition(communicator.rank() == 1 ? second : first);
    float data[8] = {};
    return communicator.AllReduce(*group, {{data, data, 8}}, kFloat32,
                                  ReduceKind::kSum);
  });
}

TEST(LocalRanks, EqualCallsAtOtherPositionsAreAnError) {
  LocalRanks ranks(ParseMesh("x:3"));
  const RankPosition here = {2, 6, 3, true};
  EXPECT_OK(ReduceAt(ranks, here, here));
  EXPECT_THAT(ReduceAt(ranks, here, {2, 5, 3, true}),
              StatusIs(absl::StatusCode::kAborted,
                       AllOf(StartsWith("rank 1 runs step 5 of program 2, "
                                        "where rank 0 runs step 6\n"),
                             HasSubstr("rank 1 calls all_reduce sum of f32 x 8 "
                                       "in 1 buffer\n"),
                             HasSubstr("ranks 0,1,2"))));
  EXPECT_THAT(ReduceAt(ranks, here, {1, 6, 3, true}),
              StatusIs(absl::StatusCode::kAborted,
                       StartsWith("rank 1 runs step 6 of program 1, where rank "
                                  "0 runs step 6 of program 2\n")));
  EXPECT_THAT(ReduceAt(ranks, here, {2, 6, 4, true}),
              StatusIs(absl::StatusCode::kAborted,
                       StartsWith("rank 1 is at collective 4 of step 6 of "
                                  "program 2, where rank 0 is at 3\n")));
  EXPECT_THAT(ReduceAt(ranks, here, {2, 6, 3, false}),
              StatusIs(absl::StatusCode::kAborted,
                       StartsWith("rank 1 is outside of a step, where rank 0 "
                                  "runs step 6 of program 2\n")));
  EXPECT_OK(ReduceAt(ranks, here, here));
}

TEST(LocalRanks, TheRankThatDiffersFromTheOthersIsNamedFirst) {
  LocalRanks ranks(ParseMesh("x:3"));
  EXPECT_THAT(ranks.Run([](Communicator& communicator) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const auto* group, communicator.GroupOver({0}));
    communicator.SetPosition({1, communicator.rank() == 0 ? 8 : 7, 1, true});
    char in = 0, out[3];
    return communicator.AllGather(*group, &in, out, 1);
  }),
              StatusIs(absl::StatusCode::kAborted,
                       StartsWith("rank 0 runs step 8 of program 1, where rank "
                                  "1 runs step 7\n")));
}

TEST(LocalRanks, ARankThatHasEndedIsNotWaitedFor) {
  LocalRanks ranks(ParseMesh("x:2,y:2"));
  for (int run = 0; run < 3; ++run) {
    // Rank 1 makes one call less than rank 0; ranks 2 and 3 do not meet it.
    EXPECT_THAT(ranks.Run([](Communicator& communicator) -> absl::Status {
      MTF_ASSIGN_OR_RETURN(const auto* group, communicator.GroupOver({1}));
      for (int step = 0; step < 5; ++step) {
        if (communicator.rank() == 1 && step == 4) break;
        communicator.SetPosition({1, step, 1, true});
        char in = 0, out[2];
        MTF_RETURN_IF_ERROR(communicator.AllGather(*group, &in, out, 1));
      }
      return absl::OkStatus();
    }),
                StatusIs(absl::StatusCode::kAborted,
                         AllOf(StartsWith("rank 1 has ended, where rank 0 "
                                          "runs step 4 of program 1\n"),
                               HasSubstr("rank 0 calls all_gather of 1"))));
    EXPECT_OK(ranks.Run([](Communicator& communicator) {
      return testing::CheckRepeats(communicator, 20);
    }));
  }
}

TEST(LocalRanks, ALateRankIsNamed) {
  ASSERT_EQ(setenv("MTF_COLLECTIVE_TIMEOUT", "0.05", 1), 0);
  LocalRanks ranks(ParseMesh("x:3"));
  ASSERT_EQ(unsetenv("MTF_COLLECTIVE_TIMEOUT"), 0);
  std::atomic<int> gave_up{0};
  EXPECT_THAT(ranks.Run([&](Communicator& communicator) {
    while (communicator.rank() == 1 && gave_up < 2) std::this_thread::yield();
    const absl::Status status =
        communicator.rank() == 1 ? absl::OkStatus() : communicator.Barrier();
    ++gave_up;
    return status;
  }),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("for rank 1 to join barrier"),
                             HasSubstr("MTF_COLLECTIVE_TIMEOUT"))));
}

TEST(LocalRanks, WrongArgumentsAreErrors) {
  LocalRanks ranks(ParseMesh("x:2,y:2"));
  Communicator& communicator = ranks.communicator(0);
  EXPECT_THAT(communicator.GroupOver({2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("axes 2 of mesh \"x:2,y:2\"")));
  EXPECT_THAT(communicator.GroupOver({1, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1,1")));
  absl::StatusOr<const Communicator::Group*> group =
      communicator.GroupOver({1});
  ASSERT_OK(group);
  EXPECT_THAT(communicator.AllGather(**group, nullptr, nullptr, -1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("all_gather of -1")));
  EXPECT_THAT(communicator.Permute(**group, nullptr, nullptr, 0, 3, 3),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("from rank 3 to rank 3 in the group of ranks "
                                 "0,1")));
}

TEST(LocalRanks, RunsKeepTheirThreads) {
  LocalRanks ranks(ParseMesh("x:3"));
  std::vector<std::thread::id> first(3), second(3);
  for (auto* ids : {&first, &second}) {
    EXPECT_OK(ranks.Run([&](Communicator& communicator) {
      (*ids)[communicator.rank()] = std::this_thread::get_id();
      return absl::OkStatus();
    }));
  }
  EXPECT_EQ(first, second);
  EXPECT_NE(first[0], std::this_thread::get_id());
}

TEST(GroupBarrier, ARoundPassesForAllOrForNone) {
  // One rank times out at a random moment of a round of four. Either all four
  // pass the round or none does.
  for (int round = 0; round < 2000; ++round) {
    GroupBarrier barrier;
    std::atomic<bool> abort{false};
    std::atomic<int> passed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        if (barrier.Arrive(
                4, {.spins = 10, .abort = &abort, .timeout_seconds = 0}) ==
            GroupBarrier::Outcome::kPassed) {
          ++passed;
        }
      });
    }
    abort = true;
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(passed == 0 || passed == 4) << passed;
  }
}

TEST(ReduceInOrder, NanPropagatesFromEitherSide) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float a[4] = {nan, 1, 2, nan}, b[4] = {1, nan, 3, nan};
  for (ReduceKind kind : testing::kAllReduceKinds) {
    float out[4];
    ReduceInOrder(kFloat32, kind, {a, b}, out, 4);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]) && std::isnan(out[3]));
    EXPECT_FALSE(std::isnan(out[2]));
  }
}

TEST(ReduceInOrder, SixteenBitFloatsRoundOnce) {
  // 256 + 1 + 1 is 258 in one rounding; in two, 256 + 1 stays 256 in bfloat16.
  const BFloat16 big = ToBFloat16(256), one = ToBFloat16(1);
  BFloat16 sum;
  ReduceInOrder(kBFloat16, ReduceKind::kSum, {&big, &one, &one}, &sum, 1);
  EXPECT_EQ(ToFloat(sum), 258);
}

LauncherInfo Detect(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  return DetectLauncher([&](const char* name) -> const char* {
    for (const auto& [key, value] : variables) {
      if (key == name) return value.c_str();
    }
    return nullptr;
  });
}

TEST(Launcher, IsReadFromTheEnvironment) {
  EXPECT_EQ(Detect({}).name, "");
  EXPECT_EQ(Detect({}).size, 1);
  const LauncherInfo open_mpi = Detect({{"OMPI_COMM_WORLD_SIZE", "4"},
                                        {"OMPI_COMM_WORLD_RANK", "3"},
                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(open_mpi.name, "Open MPI");
  EXPECT_EQ(open_mpi.size, 4);
  EXPECT_EQ(open_mpi.rank, 3);
  EXPECT_EQ(open_mpi.local_size, 2);
  EXPECT_EQ(Detect({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}}).name, "MPICH");
  EXPECT_EQ(Detect({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}}).name,
            "Slurm");
  for (const char* nonsense : {"", "x", "-3", "0", "99999999999"}) {
    EXPECT_EQ(Detect({{"PMI_SIZE", nonsense}, {"PMI_RANK", "0"}}).size, 1);
  }
  EXPECT_EQ(Detect({{"PMI_SIZE", "2"}, {"PMI_RANK", "2"}}).size, 1);
}

TEST(Launcher, ALauncherOfAnotherMpiIsAnError) {
  const LauncherInfo info = {
      .size = 4, .rank = 2, .local_size = 4, .name = "MPICH"};
  EXPECT_THAT(
      CheckLauncher(info, 1, "Open MPI v4.1.4"),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("one of 4 started by MPICH"),
                     HasSubstr("Open MPI v4.1.4"), HasSubstr("mtfrun"))));
  EXPECT_OK(CheckLauncher(info, 4, "Open MPI v4.1.4"));
  EXPECT_OK(CheckLauncher(LauncherInfo(), 1, "Open MPI v4.1.4"));
}

TEST(Launcher, RanksShareTheCoresOfTheJob) {
  // ThreadsPerRank(local ranks, cores of this rank, cores of all of them)
  EXPECT_EQ(ThreadsPerRank(1, 8, 8), 8);
  EXPECT_EQ(ThreadsPerRank(2, 8, 8), 4);
  EXPECT_EQ(ThreadsPerRank(2, 4, 8), 4);  // bound to disjoint halves
  EXPECT_EQ(ThreadsPerRank(2, 1, 2), 1);
  EXPECT_EQ(ThreadsPerRank(8, 2, 2), 1);
  EXPECT_EQ(ThreadsPerRank(3, 8, 8), 2);
}

TEST(Launcher, RanksBoundToTooFewCoresGiveAWarning) {
  EXPECT_THAT(BindingWarning(1, 1, 2),
              AllOf(HasSubstr("bound to 1 of 2 cores"), HasSubstr("mtfrun"),
                    HasSubstr("--bind-to none")));
  EXPECT_THAT(BindingWarning(2, 1, 64), HasSubstr("share is 32"));
  EXPECT_THAT(BindingWarning(2, 1, 2), IsEmpty());
  EXPECT_THAT(BindingWarning(8, 2, 2), IsEmpty());
  EXPECT_THAT(BindingWarning(1, 2, 2), IsEmpty());
}

}  // namespace
}  // namespace mtf
