// SPDX-License-Identifier: Apache-2.0
//
// Ranks use one algorithm, whatever their timings, caches and heuristics, and
// none waits for a rank with fewer problems.
#include "backends/cuda/matmul/matmul_choices.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/cuda/communicators/nccl.h"
#include "backends/cuda/device.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/passes/plan_buffers.h"
#include "lowering/passes/plan_einsums.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"
#include "mtf/status.h"
#include "tests/backends/cuda/fake_matmuls.h"
#include "tests/backends/cuda/fake_nccl.h"
#include "tests/backends/fused_for.h"
#include "tests/matchers.h"
#include "tests/program_text.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::FakeMatmuls;
using ::testing::HasSubstr;

MatmulProblem Problem(int64_t m) {
  MatmulProblem problem;
  problem.m = m;
  return problem;
}

// Ranks as threads, each with its own library and cache folder.
class Choosing : public ::testing::Test {
 protected:
  static constexpr int kRanks = 4;

  struct Rank {
    FakeMatmuls library;
    std::unique_ptr<MatmulChoices> choices;
    std::map<int64_t, std::shared_ptr<const MatmulChoices::Choice>> of;
    std::string note;
    int exchanges = 0;
  };

  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              absl::StrCat("mtf_matmul_choices_test.", getpid());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  DiskCache CacheOf(int rank) const {
    return DiskCache((folder_ / absl::StrCat(rank)).string());
  }
  std::string KeyOf(int rank, int64_t m) const {
    return absl::StrCat(ranks_[rank].library.Version(), " ",
                        Problem(m).ToString());
  }
  void Warm(int rank, int64_t m, const std::string& algorithm) {
    CacheOf(rank).Keep(KeyOf(rank, m), algorithm);
  }

  // Each rank prepares the problems `of_rank(rank)`, then all settle.
  absl::Status Settle(const std::function<std::vector<int64_t>(int)>& of_rank) {
    return threads_.Run([&](Communicator& communicator) -> absl::Status {
      const auto rank = static_cast<int>(communicator.rank());
      Rank& mine = ranks_[rank];
      if (mine.choices == nullptr) {
        mine.choices =
            std::make_unique<MatmulChoices>(mine.library, CacheOf(rank));
        mine.choices->JoinClique();
      }
      for (int64_t m : of_rank(rank)) {
        MTF_ASSIGN_OR_RETURN(mine.of[m],
                             mine.choices->Choose(Problem(m), true));
      }
      MTF_ASSIGN_OR_RETURN(
          mine.note, mine.choices->Settle(rank, [&](const std::string& text) {
            ++mine.exchanges;
            return communicator.AllGatherText(text);
          }));
      return absl::OkStatus();
    });
  }
  absl::Status Settle(std::vector<int64_t> problems) {
    return Settle([&](int) { return problems; });
  }

  std::vector<std::string> Algorithms(int64_t m) const {
    std::vector<std::string> all;
    for (const Rank& rank : ranks_) all.push_back(rank.of.at(m)->algorithm);
    return all;
  }
  std::vector<int> Timings() const {
    std::vector<int> all;
    for (const Rank& rank : ranks_) all.push_back(rank.library.timings);
    return all;
  }

  std::filesystem::path folder_;
  Rank ranks_[kRanks];
  LocalRanks threads_{*Mesh::Parse("x:4")};
};

TEST_F(Choosing, OneRankTimesForAll) {
  for (int i = 0; i < kRanks; ++i) {
    ranks_[i].library.fastest = absl::StrCat(2 - i % 3);
  }
  ASSERT_OK(Settle({8, 16, 8}));
  EXPECT_THAT(Algorithms(8), Each("2"));
  EXPECT_THAT(Algorithms(16), Each("2"));
  EXPECT_THAT(Timings(), ElementsAre(2, 0, 0, 0));
  for (const Rank& rank : ranks_) EXPECT_EQ(rank.note, "");
  // Rank 0 has cached it.
  EXPECT_EQ(CacheOf(0).Find(KeyOf(0, 8)), "2");
}

TEST_F(Choosing, SettledProblemsAreNotSettledAgain) {
  ASSERT_OK(Settle({8}));
  for (Rank& rank : ranks_) rank.library.fastest = "2";
  ASSERT_OK(Settle({8, 16}));
  EXPECT_THAT(Algorithms(8), Each("1"));
  EXPECT_THAT(Algorithms(16), Each("2"));
  ASSERT_OK(Settle({8, 16}));
  for (const Rank& rank : ranks_) EXPECT_EQ(rank.exchanges, 5);
}

TEST_F(Choosing, WarmCacheOfRankZeroIsUsedByAll) {
  Warm(0, 8, "2");
  ASSERT_OK(Settle({8, 16}));
  EXPECT_THAT(Algorithms(8), Each("2"));
  EXPECT_THAT(Algorithms(16), Each("1"));
  EXPECT_THAT(Timings(), ElementsAre(1, 0, 0, 0));
}

TEST_F(Choosing, WarmCacheOfAnotherRankIsIgnored) {
  Warm(1, 8, "2");
  Warm(3, 16, "0");
  ASSERT_OK(Settle({8, 16}));
  EXPECT_THAT(Algorithms(8), Each("1"));
  EXPECT_THAT(Algorithms(16), Each("1"));
}

// An entry cached by another library version is not used.
TEST_F(Choosing, StaleCacheIsTimedAgain) {
  Warm(0, 8, "old");
  ranks_[0].library.refused = "old";
  ASSERT_OK(Settle({8}));
  EXPECT_THAT(Algorithms(8), Each("1"));
}

TEST_F(Choosing, WithoutTimingsAllUseTheFirstChoiceOfRankZero) {
  ranks_[0].library.clock_fails = true;
  ranks_[0].library.heuristics = {"2", "1"};
  ASSERT_OK(Settle({8}));
  EXPECT_THAT(Algorithms(8), Each("2"));
  EXPECT_EQ(CacheOf(0).Find(KeyOf(0, 8)), std::nullopt);
}

TEST_F(Choosing, DifferentHeuristicsGiveOneChoice) {
  ranks_[1].library.heuristics = {"2"};
  ranks_[2].library.heuristics = {"7", "8", "9"};
  ASSERT_OK(Settle({8}));
  EXPECT_THAT(Algorithms(8), Each("1"));
  EXPECT_EQ(ranks_[2].note, "");
}

TEST_F(Choosing, ChoiceThatARankCannotRunIsDropped) {
  ranks_[2].library.refused = "1";
  ASSERT_OK(Settle({8, 16}));
  EXPECT_THAT(Algorithms(8), Each("0"));
  for (const Rank& rank : ranks_) {
    EXPECT_THAT(rank.note,
                AllOf(HasSubstr("2 of 2 matmuls"), HasSubstr("rank 2"),
                      HasSubstr(Problem(8).ToString())));
  }
}

TEST_F(Choosing, DifferentVersionsAreReported) {
  ranks_[3].library.version = "fake 2";
  ASSERT_OK(Settle({8}));
  EXPECT_THAT(Algorithms(8), Each("1"));
  EXPECT_THAT(ranks_[1].note,
              AllOf(HasSubstr("rank 3 runs matmuls with fake 2"),
                    HasSubstr("rank 0 with fake 1"), HasSubstr("last bits")));
}

// As after a program that failed on one rank.
TEST_F(Choosing, RanksWithDifferentProblemsDoNotWait) {
  ASSERT_OK(Settle([](int rank) -> std::vector<int64_t> {
    if (rank == 1) return {16};
    if (rank == 2) return {16, 8};
    return {8, 16};
  }));
  EXPECT_THAT(Algorithms(16), Each("1"));
  for (int rank : {0, 2, 3}) {
    EXPECT_EQ(ranks_[rank].of.at(8)->algorithm, "0") << rank;
  }
  EXPECT_THAT(ranks_[0].note, HasSubstr("rank 1"));
  ASSERT_OK(Settle([](int rank) -> std::vector<int64_t> {
    return rank == 1 ? std::vector<int64_t>{8} : std::vector<int64_t>{};
  }));
  EXPECT_THAT(Algorithms(8), Each("0"));
}

TEST_F(Choosing, UnsupportedProblemFailsAtPreparation) {
  ranks_[0].library.heuristics.clear();
  MatmulChoices choices(ranks_[0].library, CacheOf(0));
  EXPECT_THAT(choices.Choose(Problem(8), true).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("nothing")));
  choices.JoinClique();
  EXPECT_THAT(choices.Choose(Problem(8), true).status(),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("nothing")));
}

TEST_F(Choosing, SingleProcessTimesUnlessRecording) {
  MatmulChoices choices(ranks_[0].library, CacheOf(0));
  const auto recorded = choices.Choose(Problem(8), /*may_time=*/false);
  ASSERT_OK(recorded);
  EXPECT_EQ((*recorded)->algorithm, "0");
  const auto timed = choices.Choose(Problem(16), /*may_time=*/true);
  ASSERT_OK(timed);
  EXPECT_EQ((*timed)->algorithm, "1");
  EXPECT_THAT(Timings(), ElementsAre(1, 0, 0, 0));
}

TEST_F(Choosing, FailedAllGatherIsTheError) {
  MatmulChoices choices(ranks_[0].library, CacheOf(0));
  choices.JoinClique();
  ASSERT_OK(choices.Choose(Problem(8), true));
  const auto settled = choices.Settle(
      0, [](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
        return absl::UnavailableError("rank 1 is gone");
      });
  EXPECT_THAT(settled.status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("gone")));
}

// A step of four ranks with different heuristics; its product is replicated.
absl::StatusOr<std::vector<std::vector<char>>> RunStep(bool settle) {
  MTF_ASSIGN_OR_RETURN(Program program,
                       mtf::testing::ParseText(R"(mesh{data:2, model:2}
%x : f32[b:6, d:40] = input x
%w : f32[d:40, f:8] = input w
%y : f32[b:6, f:8] = einsum(%x, %w) sum{d}
output(%y) y
)"));
  MTF_RETURN_IF_ERROR(PlanEinsums(program));
  MTF_RETURN_IF_ERROR(PlanBuffers(program));
  std::map<std::string, HostTensor> feeds;
  for (int i = 0; i < 2; ++i) {
    HostTensor& feed =
        feeds
            .emplace(i == 0 ? "x" : "w",
                     HostTensor(program.values[i].shape, kFloat32))
            .first->second;
    for (int64_t j = 0; j < feed.num_elements(); ++j) {
      StoreElement(feed.data(), kFloat32, j, 1.0 / static_cast<double>(3 + j));
    }
  }
  testing::FakeFabric fabric;
  FakeMatmuls libraries[4];
  for (int i = 0; i < 4; ++i) {
    libraries[i].heuristics = {absl::StrCat(7 * i), "1", "2"};
    fabric.matmuls.push_back(&libraries[i]);
  }
  std::vector<std::vector<char>> results(4);
  MTF_RETURN_IF_ERROR(
      LocalRanks(program.mesh).Run([&](Communicator& host) -> absl::Status {
        const auto rank = static_cast<int>(host.rank());
        const std::shared_ptr<Runtime> gpu =
            testing::MakeFakeGpu(fabric, rank, absl::StrCat("GPU-", rank));
        const std::unique_ptr<Device> device = CreateDeviceOver(gpu, "fake");
        MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Connection> connection,
                             ConnectNccl(gpu, host));
        VariableStore variables(*device);
        const Program fused = mtf::testing::FusedFor(*device, program);
        MTF_ASSIGN_OR_RETURN(
            const std::unique_ptr<Executor> executor,
            Executor::Create(fused, *device, *connection, variables));
        if (settle) MTF_RETURN_IF_ERROR(connection->SettleChoices());
        std::map<std::string, HostTensor> outputs;
        MTF_RETURN_IF_ERROR(executor->Run(feeds, 0, 0, &outputs));
        const HostTensor& y = outputs.at("y");
        const char* const data = static_cast<const char*>(y.data());
        results[rank].assign(data, data + y.num_elements() * 4);
        return absl::OkStatus();
      }));
  return results;
}

TEST(SettledChoices, GiveReplicasTheSameBits) {
  const auto apart = RunStep(/*settle=*/false);
  ASSERT_OK(apart);
  EXPECT_NE((*apart)[0], (*apart)[1]);  // the test detects differences
  const auto results = RunStep(/*settle=*/true);
  ASSERT_OK(results);
  for (const std::vector<char>& result : *results) {
    EXPECT_EQ(result, results->front());
  }
}

}  // namespace
}  // namespace mtf::cuda
