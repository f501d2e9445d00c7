// SPDX-License-Identifier: Apache-2.0
#include "layouts/row_plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "mtf/check.h"

namespace mtf {
namespace {

int64_t FloorOf(int64_t x, int64_t y) { return x / y - (x % y < 0 ? 1 : 0); }

// The positions [begin, end) that `rank` needs.
std::pair<int64_t, int64_t> Needed(const RowTransfer& transfer, int64_t rank) {
  const int64_t first = rank * transfer.extent;
  const int64_t last = std::min(first + transfer.extent, transfer.windows) - 1;
  if (first > last || transfer.span == 0) return {0, 0};
  return {first * transfer.stride, last * transfer.stride + transfer.span};
}

// Calls visit(source, begin, from, to) for each part of a source that covers
// the positions [from, to) of those that `rank` needs, where `begin` is the
// position of row 0. A source that repeats has several.
template <class Visit>
void ForEachPart(const RowTransfer& transfer, int64_t rank,
                 const Visit& visit) {
  const auto [first, last] = Needed(transfer, rank);
  if (first == last) return;
  for (size_t k = 0; k < transfer.sources.size(); ++k) {
    const RowTransfer::Source& source = transfer.sources[k];
    if (source.size == 0) continue;
    int64_t begin = source.offset;
    if (transfer.wrap) {
      begin += FloorOf(first - begin, source.size) * source.size;
    }
    do {
      const int64_t from = std::max(first, begin);
      const int64_t to = std::min(last, begin + source.size);
      if (from < to) visit(static_cast<int>(k), begin, from, to);
      begin += source.size;
    } while (transfer.wrap && begin < last);
  }
}

int64_t SumOfRows(const std::vector<RowPlan::Round>& rounds) {
  int64_t rows = 0;
  for (const RowPlan::Round& round : rounds) rows += round.rows;
  return rows;
}

}  // namespace

RowPlan::RowPlan(RowTransfer transfer) : transfer_(std::move(transfer)) {
  MTF_CHECK(!transfer_.wrap || transfer_.sources.size() == 1);
  std::vector<Message> messages;
  is_complete_ = FindMessages(messages);
  if (!is_complete_) return;
  std::map<int64_t, int64_t> by_distance;
  std::vector<int64_t> sent(transfer_.ranks, 0), received = sent;
  for (const Message& message : messages) {
    int64_t& rows = by_distance[DistanceOf(message)];
    rows = std::max(rows, message.rows);
    sent[message.sender] += message.rows;
    received[message.receiver] += message.rows;
  }
  int64_t shifted_rows = 0;
  for (const auto& [distance, rows] : by_distance) shifted_rows += rows;
  // No rounds take fewer rows than the busiest rank sends or receives.
  const int64_t least_rows =
      std::max(*std::max_element(sent.begin(), sent.end()),
               *std::max_element(received.begin(), received.end()));
  if (shifted_rows > least_rows) rounds_ = PackedRounds(messages);
  if (rounds_.empty() || shifted_rows <= SumOfRows(rounds_)) {
    rounds_ = ShiftRounds(messages);
  }
  for (Round& round : rounds_) CompletePermutation(round);
}

int64_t RowPlan::DistanceOf(const Message& message) const {
  return (message.receiver - message.sender + transfer_.ranks) %
         transfer_.ranks;
}

int64_t RowPlan::rows() const { return SumOfRows(rounds_); }

int64_t RowPlan::gathered_rows() const {
  int64_t rows = 0;
  for (const RowTransfer::Source& source : transfer_.sources) {
    if (!source.replicated) rows += (transfer_.ranks - 1) * source.extent;
  }
  return rows;
}

std::vector<RowRun> RowPlan::Runs(int64_t rank, int64_t holder) const {
  std::vector<RowRun> runs;
  const int64_t line = rank * transfer_.extent * transfer_.stride;
  ForEachPart(transfer_, rank,
              [&](int k, int64_t begin, int64_t from, int64_t to) {
                const RowTransfer::Source& source = transfer_.sources[k];
                if (source.replicated) {
                  if (holder != rank) return;
                } else {
                  begin += holder * source.extent;
                  from = std::max(from, begin);
                  to = std::min(to, begin + source.extent);
                }
                if (from < to) {
                  runs.push_back({k, from - begin, from - line, to - from});
                }
              });
  std::sort(runs.begin(), runs.end(),
            [](const RowRun& a, const RowRun& b) { return a.line < b.line; });
  return runs;
}

bool RowPlan::FindMessages(std::vector<Message>& messages) const {
  const int64_t most = kMostMessages * std::max(transfer_.ranks, kMostMessages);
  for (int64_t rank = 0; rank < transfer_.ranks; ++rank) {
    std::map<int64_t, int64_t> rows;  // by sender
    ForEachPart(transfer_, rank,
                [&](int k, int64_t begin, int64_t from, int64_t to) {
                  const RowTransfer::Source& source = transfer_.sources[k];
                  if (source.replicated) return;
                  while (from < to) {
                    const int64_t holder = (from - begin) / source.extent;
                    const int64_t end =
                        std::min(to, begin + (holder + 1) * source.extent);
                    if (holder != rank) rows[holder] += end - from;
                    from = end;
                  }
                });
    for (const auto& [sender, count] : rows) {
      messages.push_back({sender, rank, count});
    }
    if (static_cast<int64_t>(messages.size()) > most) return false;
  }
  return true;
}

RowPlan::Round RowPlan::EmptyRound() const {
  Round round;
  round.senders.assign(transfer_.ranks, -1);
  round.receivers.assign(transfer_.ranks, -1);
  return round;
}

std::vector<RowPlan::Round> RowPlan::ShiftRounds(
    const std::vector<Message>& messages) const {
  std::map<int64_t, Round> rounds;  // by distance
  for (const Message& message : messages) {
    const auto [round, is_new] = rounds.try_emplace(DistanceOf(message));
    if (is_new) round->second = EmptyRound();
    round->second.rows = std::max(round->second.rows, message.rows);
    round->second.senders[message.receiver] = message.sender;
    round->second.receivers[message.sender] = message.receiver;
  }
  std::vector<Round> result;
  for (auto& [distance, round] : rounds) result.push_back(std::move(round));
  return result;
}

// Longest messages first, each into the first round in which its ranks are
// free: messages of one round then have similar lengths.
std::vector<RowPlan::Round> RowPlan::PackedRounds(
    std::vector<Message> messages) const {
  std::sort(messages.begin(), messages.end(),
            [this](const Message& a, const Message& b) {
              const auto key = [this](const Message& m) {
                return std::tuple(-m.rows, DistanceOf(m), m.receiver);
              };
              return key(a) < key(b);
            });
  std::vector<Round> rounds;
  for (const Message& message : messages) {
    auto round =
        std::find_if(rounds.begin(), rounds.end(), [&](const Round& each) {
          return each.senders[message.receiver] < 0 &&
                 each.receivers[message.sender] < 0;
        });
    if (round == rounds.end()) {
      rounds.push_back(EmptyRound());
      round = rounds.end() - 1;
    }
    round->rows = std::max(round->rows, message.rows);
    round->senders[message.receiver] = message.sender;
    round->receivers[message.sender] = message.receiver;
  }
  return rounds;
}

// Ranks without a message send to ranks that receive none: all at one distance
// if possible, otherwise to themselves where they can.
void RowPlan::CompletePermutation(Round& round) const {
  const int64_t ranks = transfer_.ranks;
  round.permutation = round.senders;
  int64_t shift = -1;
  bool is_shift = true;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (round.senders[rank] < 0) continue;
    const int64_t distance = (rank - round.senders[rank] + ranks) % ranks;
    is_shift = is_shift && (shift < 0 || shift == distance);
    shift = distance;
  }
  if (is_shift) {
    round.shift = shift;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      round.permutation[rank] = (rank - shift + ranks) % ranks;
    }
    return;
  }
  std::vector<bool> sends(ranks, false);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    sends[rank] = round.receivers[rank] >= 0;
  }
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (round.permutation[rank] >= 0 || sends[rank]) continue;
    round.permutation[rank] = rank;
    sends[rank] = true;
  }
  int64_t free = 0;
  for (int64_t& sender : round.permutation) {
    if (sender >= 0) continue;
    while (sends[free]) ++free;
    sender = free;
    sends[free] = true;
  }
}

}  // namespace mtf
