// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_ROW_PLAN_H_
#define LAYOUTS_ROW_PLAN_H_

#include <cstdint>
#include <vector>

namespace mtf {

// Rows of one dimension that ranks need, and rows that they hold. Ranks are
// numbered along the mesh axes of the transfer.
//
// The rows of the sources have positions on a line: those of source k begin at
// its offset. Window i covers the positions [i * stride, i * stride + span).
// Rank r has the windows [r * extent, (r + 1) * extent) below `windows`, and
// needs the rows at the positions of these.
struct RowTransfer {
  struct Source {
    int64_t size = 0;    // rows
    int64_t extent = 0;  // of a shard: rank r holds rows from r * extent on
    int64_t offset = 0;
    bool replicated = false;  // every rank holds all rows
  };
  int64_t ranks = 1;
  std::vector<Source> sources;  // no two have a row at one position
  bool wrap = false;            // the only source repeats endlessly
  int64_t windows = 0;
  int64_t extent = 0;
  int64_t stride = 1, span = 1;

  // The positions that a rank keeps in memory, from r * extent * stride on.
  int64_t LineExtent() const {
    return extent == 0 ? 0 : (extent - 1) * stride + span;
  }
};

// Consecutive rows of a source and where they belong.
struct RowRun {
  int source = 0;
  int64_t row = 0;   // in the shard of the rank that holds it
  int64_t line = 0;  // in the line of the rank that needs it
  int64_t count = 0;
  friend bool operator==(const RowRun&, const RowRun&) = default;
};

// Who sends which rows to whom. The messages between pairs of ranks are
// arranged in rounds. In a round a rank sends at most one message and receives
// at most one, so a round is one collective_permute of its longest message:
//
//   4 ranks with 8 rows each, windows of 3 rows around each row:
//     round 0: each rank sends its last row to the next one
//     round 1: each rank sends its first row to the previous one
//
// Rounds are shifts by a number of ranks if that takes no more rows than
// rounds into which the messages are packed by size.
class RowPlan {
 public:
  explicit RowPlan(RowTransfer transfer);

  struct Round {
    int64_t rows = 0;  // of the longest message
    // By rank: the sender of its message, and the receiver of its message; -1:
    // none.
    std::vector<int64_t> senders, receivers;
    // By rank: from whom it receives in the permutation that has these
    // messages.
    std::vector<int64_t> permutation;
    // The permutation is a shift by this many ranks; 0: it is not.
    int64_t shift = 0;
  };
  const std::vector<Round>& rounds() const { return rounds_; }
  // False if there would be more than kMostMessages per rank, on more ranks
  // than that: then there are no rounds, and an all_gather is the better way.
  bool is_complete() const { return is_complete_; }
  static constexpr int64_t kMostMessages = 64;
  // The rows that a rank sends in all rounds.
  int64_t rows() const;
  // The rows that an all_gather of the sharded sources sends.
  int64_t gathered_rows() const;

  // The rows of `holder` that `rank` needs, by line. They are one message, in
  // this order. Replicated rows are their own rank's.
  std::vector<RowRun> Runs(int64_t rank, int64_t holder) const;

  const RowTransfer& transfer() const { return transfer_; }

 private:
  struct Message {
    int64_t sender = 0, receiver = 0, rows = 0;
  };
  // Returns false, early, if there are too many.
  bool FindMessages(std::vector<Message>& messages) const;
  int64_t DistanceOf(const Message& message) const;
  std::vector<Round> ShiftRounds(const std::vector<Message>& messages) const;
  std::vector<Round> PackedRounds(std::vector<Message> messages) const;
  Round EmptyRound() const;
  void CompletePermutation(Round& round) const;

  RowTransfer transfer_;
  std::vector<Round> rounds_;
  bool is_complete_ = false;
};

}  // namespace mtf

#endif  // LAYOUTS_ROW_PLAN_H_
