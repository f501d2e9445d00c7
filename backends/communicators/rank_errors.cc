// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/rank_errors.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/communicators/wait_options.h"
#include "backends/rank_position.h"
#include "layouts/text_items.h"

namespace mtf {
namespace {

constexpr char kAnotherRankFailed[] = "another rank failed";

// Causes have low numbers. Compares messages, because ranks send each other
// only codes and messages.
int Precedence(const absl::Status& status) {
  if (!absl::IsAborted(status)) return 0;
  return IsAnotherRankFailed(status) ? 2 : 1;
}

}  // namespace

absl::Status AnotherRankFailed() {
  return absl::AbortedError(kAnotherRankFailed);
}

bool IsAnotherRankFailed(const absl::Status& status) {
  return absl::IsAborted(status) && status.message() == kAnotherRankFailed;
}

absl::Status RankHasEnded(int64_t rank, int64_t waiting,
                          const CollectiveCall& call) {
  const RankPosition position = RankPosition::Unpack(call.position);
  const std::string calls =
      absl::StrCat("rank ", waiting, " calls ", call.ToString());
  absl::Status error = absl::AbortedError(absl::StrCat(
      "rank ", rank, " has ended, where ",
      position.inside
          ? absl::StrCat("rank ", waiting, " runs step ", position.step,
                         " of program ", position.program,
                         DetailLine("calls", calls))
          : calls,
      DetailLine("help",
                 "every rank must make the same calls in the same order")));
  error.SetPayload(kMissingRanks, absl::Cord(absl::StrCat(rank)));
  return error;
}

absl::Status RanksAreLate(int64_t waiting, double seconds,
                          absl::Span<const int64_t> missing,
                          const CollectiveCall& call) {
  absl::Status error = absl::DeadlineExceededError(absl::StrCat(
      "rank ", waiting, " waited ", seconds,
      missing.empty() ? " s for another rank to finish "
                      : absl::StrCat(" s for rank ",
                                     absl::StrJoin(missing, ", "), " to join "),
      call.ToString(), DetailLine("help", kCollectiveTimeoutHelp)));
  error.SetPayload(kMissingRanks, absl::Cord(absl::StrJoin(missing, ",")));
  return error;
}

std::vector<int64_t> MissingRanksOf(const absl::Status& status) {
  std::vector<int64_t> ranks;
  const auto payload = status.GetPayload(kMissingRanks);
  if (!payload.has_value()) return ranks;
  const std::string text(*payload);
  for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int64_t rank = 0;
    if (absl::SimpleAtoi(item, &rank)) ranks.push_back(rank);
  }
  return ranks;
}

absl::Status FirstCause(absl::Span<const absl::Status> statuses) {
  absl::Status first;
  for (const absl::Status& status : statuses) {
    if (status.ok()) continue;
    if (first.ok() || Precedence(status) < Precedence(first)) first = status;
  }
  return first;
}

}  // namespace mtf
