// SPDX-License-Identifier: Apache-2.0
#include "layouts/row_plan.h"

#include <algorithm>
#include <vector>

#include "layouts/prove_rows.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What the busiest rank must send or receive.
int64_t LeastRows(const RowPlan& plan) {
  std::vector<int64_t> sent(plan.transfer().ranks), received = sent;
  for (const RowPlan::Round& round : plan.rounds()) {
    for (int64_t rank = 0; rank < plan.transfer().ranks; ++rank) {
      if (round.senders[rank] < 0) continue;
      for (const RowRun& run : plan.Runs(rank, round.senders[rank])) {
        sent[round.senders[rank]] += run.count;
        received[rank] += run.count;
      }
    }
  }
  return std::max(*std::max_element(sent.begin(), sent.end()),
                  *std::max_element(received.begin(), received.end()));
}

int64_t Extent(int64_t size, int64_t ranks, int64_t grain) {
  return (size + grain - 1) / grain * grain / ranks;
}

RowTransfer Transfer(int64_t ranks, int64_t size, int64_t offset,
                     int64_t windows, int64_t stride, int64_t span,
                     bool wrap = false, int64_t more_grain = 1) {
  RowTransfer transfer;
  transfer.ranks = ranks;
  const int64_t grain = ranks * more_grain;
  transfer.sources = {{size, Extent(size, ranks, grain), offset}};
  transfer.wrap = wrap;
  transfer.windows = windows;
  transfer.extent = Extent(windows, ranks, grain);
  transfer.stride = stride;
  transfer.span = span;
  return transfer;
}

TEST(RowPlan, NeighboursOfEachRowAreTwoShifts) {
  const RowPlan plan(Transfer(4, 32, 1, 32, 1, 3));
  ASSERT_EQ(plan.rounds().size(), 2u);
  EXPECT_EQ(plan.rounds()[0].rows, 1);
  EXPECT_EQ(plan.rounds()[0].shift, 1);
  EXPECT_THAT(plan.rounds()[0].senders, ElementsAre(-1, 0, 1, 2));
  EXPECT_EQ(plan.rounds()[1].rows, 1);
  EXPECT_EQ(plan.rounds()[1].shift, 3);
  EXPECT_THAT(plan.Runs(1, 0), ElementsAre(RowRun{0, 7, 0, 1}));
  EXPECT_THAT(plan.Runs(1, 1), ElementsAre(RowRun{0, 0, 1, 8}));
  EXPECT_THAT(plan.Runs(1, 2), ElementsAre(RowRun{0, 0, 9, 1}));
  EXPECT_THAT(plan.Runs(1, 3), IsEmpty());
  EXPECT_EQ(plan.gathered_rows(), 24);
}

TEST(RowPlan, TwoRanksSwapInOneRound) {
  const RowPlan plan(Transfer(2, 16, 2, 16, 1, 4));
  ASSERT_EQ(plan.rounds().size(), 1u);
  EXPECT_EQ(plan.rounds()[0].rows, 2);
  EXPECT_EQ(plan.rounds()[0].shift, 1);
}

TEST(RowPlan, PatchesThatLineUpNeedNothing) {
  EXPECT_THAT(RowPlan(Transfer(4, 32, 0, 16, 2, 2)).rounds(), IsEmpty());
}

// Rank r needs rows of rank r / 2. By distance that would be 3 rounds.
TEST(RowPlan, AHalfIsPackedIntoTwoRounds) {
  const RowPlan plan(Transfer(8, 64, 0, 32, 1, 1));
  EXPECT_EQ(plan.rows(), 8);
  ASSERT_EQ(plan.rounds().size(), 2u);
  EXPECT_EQ(plan.rounds()[0].shift, 0);
}

// Exhaustive: rows, positions, windows, and grains above the number of ranks.
TEST(RowPlan, DeliversTheRowsOfEveryWindow) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks) {
    for (int64_t size = 0; size <= 13; ++size) {
      for (int64_t before = 0; before <= 5; ++before) {
        for (int64_t stride = 1; stride <= 3; ++stride) {
          for (int64_t span : {1, 2, 3, 5, 9, 13}) {
            for (const bool wrap : {false, true}) {
              const int64_t windows = (size + 2 + stride) / stride;
              ASSERT_OK(ProveRowPlan(
                  RowPlan(Transfer(ranks, size, before, windows, stride, span,
                                   wrap, 1 + size % 2))));
            }
          }
        }
      }
    }
  }
}

TEST(RowPlan, DeliversEverySliceWithAtMostTwiceTheLeastRows) {
  for (int64_t ranks = 2; ranks <= 8; ++ranks) {
    for (int64_t size = 1; size <= 26; ++size) {
      for (int64_t begin = 0; begin < size; ++begin) {
        for (int64_t count = 1; count <= size - begin; ++count) {
          const RowPlan plan(Transfer(ranks, size, -begin, count, 1, 1));
          ASSERT_OK(ProveRowPlan(plan));
          ASSERT_LE(plan.rows(), 2 * LeastRows(plan))
              << ranks << " ranks, " << count << " of " << size << " from "
              << begin;
        }
      }
    }
  }
}

TEST(RowPlan, DeliversSourcesOfSeveralSizes) {
  for (int64_t ranks = 1; ranks <= 5; ++ranks) {
    for (int64_t first = 0; first <= 9; ++first) {
      for (int64_t second = 0; second <= 9; ++second) {
        for (int replicated = 0; replicated < 4; ++replicated) {
          RowTransfer transfer =
              Transfer(ranks, first, 0, first + second + 2, 1, 1);
          transfer.sources.push_back(
              {second, Extent(second, ranks, ranks), first});
          transfer.sources.push_back(
              {2, Extent(2, ranks, ranks), first + second});
          transfer.sources[0].replicated = (replicated & 1) != 0;
          transfer.sources[2].replicated = (replicated & 2) != 0;
          ASSERT_OK(ProveRowPlan(RowPlan(transfer)));
        }
      }
    }
  }
}

TEST(RowPlan, OfTooManyMessagesHasNone) {
  // Each of 100 ranks needs all rows.
  const RowPlan plan(Transfer(100, 400, 400, 400, 1, 801));
  EXPECT_FALSE(plan.is_complete());
  EXPECT_THAT(plan.rounds(), IsEmpty());
  EXPECT_TRUE(RowPlan(Transfer(50, 200, 200, 200, 1, 401)).is_complete());
}

TEST(ProveRowPlans, CountsTheRanksThatAxesHaveTogether) {
  const auto proof = ProveRowPlans(*Mesh::Parse("x:2,y:3"), 60);
  ASSERT_OK(proof);
  EXPECT_EQ(proof->rank_counts, 3);  // 2, 3 and 6
  EXPECT_TRUE(proof->complete());
  EXPECT_GT(proof->proved, 5000);
  const auto none = ProveRowPlans(*Mesh::Parse("x:2"), 0);
  ASSERT_OK(none);
  EXPECT_EQ(none->proved, 0);
  EXPECT_FALSE(none->complete());
}

}  // namespace
}  // namespace mtf
