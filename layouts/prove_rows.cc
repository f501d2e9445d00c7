// SPDX-License-Identifier: Apache-2.0
#include "layouts/prove_rows.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// Row `second` of source `first`.
using SourceRow = std::pair<int, int64_t>;

std::string TransferText(const RowTransfer& transfer) {
  std::string text =
      absl::StrCat(transfer.ranks, " ranks, ", transfer.windows, " windows of ",
                   transfer.span, " by ", transfer.stride);
  for (const RowTransfer::Source& source : transfer.sources) {
    absl::StrAppend(&text, ", ", source.size, " rows at ", source.offset,
                    source.replicated ? " replicated" : "");
  }
  return absl::StrCat(text, transfer.wrap ? " wrap" : "");
}

class RowPlanProver {
 public:
  explicit RowPlanProver(const RowPlan& plan)
      : plan_(plan), transfer_(plan.transfer()), lines_(transfer_.ranks) {}

  absl::Status Run() {
    for (int64_t rank = 0; rank < transfer_.ranks; ++rank) {
      MTF_RETURN_IF_ERROR(Place(rank, rank, Take(rank, rank)));
    }
    std::map<int64_t, int64_t> by_distance;
    for (const RowPlan::Round& round : plan_.rounds()) {
      MTF_RETURN_IF_ERROR(RunRound(round, by_distance));
    }
    int64_t rows = 0;
    for (const auto& [distance, count] : by_distance) rows += count;
    if (plan_.rows() > rows) return Wrong("rounds send more than shifts", 0);
    return CheckLines();
  }

 private:
  absl::Status Wrong(absl::string_view what, int64_t rank) const {
    return absl::InternalError(absl::StrCat("rows of ", TransferText(transfer_),
                                            ": ", what, " on rank ", rank));
  }

  // The rows of `holder` that `rank` needs, in the order of their message. A
  // row that `holder` does not hold is {-1, 0}.
  std::vector<SourceRow> Take(int64_t rank, int64_t holder) const {
    std::vector<SourceRow> rows;
    for (const RowRun& run : plan_.Runs(rank, holder)) {
      const RowTransfer::Source& source = transfer_.sources[run.source];
      const int64_t first = source.replicated ? 0 : holder * source.extent;
      const int64_t held = source.replicated
                               ? source.size
                               : std::min(source.extent, source.size - first);
      for (int64_t row = run.row; row < run.row + run.count; ++row) {
        rows.push_back(row >= 0 && row < held
                           ? SourceRow(run.source, first + row)
                           : SourceRow(-1, 0));
      }
    }
    return rows;
  }

  absl::Status Place(int64_t rank, int64_t holder,
                     const std::vector<SourceRow>& rows) {
    size_t next = 0;
    for (const RowRun& run : plan_.Runs(rank, holder)) {
      for (int64_t at = run.line; at < run.line + run.count; ++at) {
        if (next >= rows.size() || rows[next].first < 0) {
          return Wrong("a row is missing in a message", rank);
        }
        if (at < 0 || at >= transfer_.LineExtent() ||
            !lines_[rank].emplace(at, rows[next++]).second) {
          return Wrong("a position gets two rows, or does not exist", rank);
        }
      }
    }
    return next == rows.size() ? absl::OkStatus()
                               : Wrong("a message has further rows", rank);
  }

  absl::Status RunRound(const RowPlan::Round& round,
                        std::map<int64_t, int64_t>& by_distance) {
    const int64_t ranks = transfer_.ranks;
    std::vector<std::vector<SourceRow>> messages(ranks);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (round.receivers[rank] < 0) continue;
      messages[rank] = Take(round.receivers[rank], rank);
      if (static_cast<int64_t>(messages[rank].size()) > round.rows) {
        return Wrong("a message is longer than its round", rank);
      }
    }
    std::set<int64_t> sources;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t source = round.permutation[rank];
      if (!sources.insert(source).second ||
          (round.shift != 0 && (source + round.shift) % ranks != rank)) {
        return Wrong("the round is not the permutation that it states", rank);
      }
      if (round.senders[rank] < 0) continue;
      MTF_RETURN_IF_ERROR(Place(rank, round.senders[rank], messages[source]));
      int64_t& most = by_distance[(rank - source + ranks) % ranks];
      most = std::max(most, static_cast<int64_t>(messages[source].size()));
    }
    return absl::OkStatus();
  }

  // The row at a position, by a search over the sources.
  SourceRow RowAt(int64_t position) const {
    for (size_t k = 0; k < transfer_.sources.size(); ++k) {
      const RowTransfer::Source& source = transfer_.sources[k];
      int64_t row = position - source.offset;
      if (source.size == 0) continue;
      if (transfer_.wrap) {
        row = (row % source.size + source.size) % source.size;
      }
      if (row >= 0 && row < source.size) return {static_cast<int>(k), row};
    }
    return {-1, 0};
  }

  absl::Status CheckLines() const {
    for (int64_t window = 0; window < transfer_.windows; ++window) {
      const int64_t rank = window / transfer_.extent;
      const int64_t first = (window % transfer_.extent) * transfer_.stride;
      for (int64_t w = 0; w < transfer_.span; ++w) {
        const SourceRow wanted = RowAt(window * transfer_.stride + w);
        const auto found = lines_[rank].find(first + w);
        const bool has = found != lines_[rank].end();
        if (has != (wanted.first >= 0) || (has && found->second != wanted)) {
          return Wrong(absl::StrCat("window ", window, " has a wrong row"),
                       rank);
        }
      }
    }
    return absl::OkStatus();
  }

  const RowPlan& plan_;
  const RowTransfer& transfer_;
  std::vector<std::map<int64_t, SourceRow>> lines_;  // by rank and position
};

// The numbers of ranks that lists of axes have.
std::set<int64_t> RankCounts(const Mesh& mesh) {
  std::set<int64_t> counts = {1};
  for (const MeshAxis& axis : mesh.axes()) {
    for (int64_t count : std::vector<int64_t>(counts.begin(), counts.end())) {
      counts.insert(count * axis.size);
    }
  }
  counts.erase(1);
  return counts;
}

int64_t ShardExtent(int64_t size, int64_t ranks, int64_t grain) {
  return (size + grain - 1) / grain * grain / ranks;
}

// Calls visit(transfer) for the transfers of a dimension of `size`.
template <class Visit>
void ForEachTransfer(int64_t ranks, int64_t size, const Visit& visit) {
  // Another axis may shard the dimension elsewhere and add padding.
  for (int64_t grain : {ranks, 2 * ranks}) {
    const auto make = [&](int64_t offset, int64_t windows) {
      RowTransfer transfer;
      transfer.ranks = ranks;
      transfer.sources = {{size, ShardExtent(size, ranks, grain), offset}};
      transfer.windows = windows;
      transfer.extent = ShardExtent(windows, ranks, grain);
      return transfer;
    };
    for (int64_t stride = 1; stride <= 3; ++stride) {
      for (int64_t span : {1, 2, 3, 5, 7, 13}) {
        for (int64_t before : {int64_t{0}, span / 2, span + 1}) {
          RowTransfer windows = make(before, (size + 2 + stride) / stride);
          windows.stride = stride;
          windows.span = span;
          visit(windows);
          windows.wrap = true;
          visit(windows);
        }
      }
    }
    // Slices, pads and shifts.
    for (int64_t offset : {-size / 2, int64_t{-3}, int64_t{-1}, int64_t{1},
                           int64_t{2}, size / 2 + 1}) {
      for (int64_t result : {size / 2, size, size + 3}) {
        visit(make(offset, result));
      }
    }
    for (int64_t other : {int64_t{1}, int64_t{4}, size}) {
      RowTransfer concat = make(0, size + other);
      concat.sources.push_back(
          {other, ShardExtent(other, ranks, grain), size, other == 4});
      visit(concat);
    }
  }
}

}  // namespace

absl::Status ProveRowPlan(const RowPlan& plan) {
  return RowPlanProver(plan).Run();
}

absl::StatusOr<RowProof> ProveRowPlans(const Mesh& mesh, double seconds) {
  const auto end =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(seconds));
  RowProof proof;
  absl::Status status;
  for (int64_t ranks : RankCounts(mesh)) {
    ++proof.rank_counts;
    std::set<int64_t> sizes = {4 * ranks - 1, 4 * ranks, 4 * ranks + 3};
    for (int64_t size = 1; size <= 13; ++size) sizes.insert(size);
    for (int64_t size : sizes) {
      ForEachTransfer(ranks, size, [&](const RowTransfer& transfer) {
        ++proof.transfers;
        if (!status.ok() || std::chrono::steady_clock::now() >= end) return;
        status = ProveRowPlan(RowPlan(transfer));
        ++proof.proved;
      });
      MTF_RETURN_IF_ERROR(status);
    }
  }
  return proof;
}

}  // namespace mtf
