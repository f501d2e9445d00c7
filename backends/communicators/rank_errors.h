// SPDX-License-Identifier: Apache-2.0
//
// The errors of ranks that wait for a rank that has ended, and the choice of
// the error to report when several ranks fail.
#ifndef BACKENDS_COMMUNICATORS_RANK_ERRORS_H_
#define BACKENDS_COMMUNICATORS_RANK_ERRORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "backends/communicators/collective_call.h"

namespace mtf {

// kAborted: the error of a rank that stops waiting because another rank has
// failed, which reports the reason.
absl::Status AnotherRankFailed();
bool IsAnotherRankFailed(const absl::Status& status);

// kAborted: `rank` has ended without an error while rank `waiting` waits for it
// in `call`. The payload kMissingRanks names `rank`.
absl::Status RankHasEnded(int64_t rank, int64_t waiting,
                          const CollectiveCall& call);

// kDeadlineExceeded: rank `waiting` has waited `seconds` for `missing` in
// `call`. The payload kMissingRanks lists `missing`, which may be empty if it
// is not known which ranks have not joined.
absl::Status RanksAreLate(int64_t waiting, double seconds,
                          absl::Span<const int64_t> missing,
                          const CollectiveCall& call);

// The ranks in the payload kMissingRanks of an error, if any.
std::vector<int64_t> MissingRanksOf(const absl::Status& status);

// The error to report of the `statuses` of all ranks: the first by rank,
// preferring causes over kAborted, and any kAborted over AnotherRankFailed().
absl::Status FirstCause(absl::Span<const absl::Status> statuses);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_RANK_ERRORS_H_
