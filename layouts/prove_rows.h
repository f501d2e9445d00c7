// SPDX-License-Identifier: Apache-2.0
//
// Proves by exhaustion over small sizes that rows of a sharded dimension arrive
// at their positions.
#ifndef LAYOUTS_PROVE_ROWS_H_
#define LAYOUTS_PROVE_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "layouts/mesh.h"
#include "layouts/row_plan.h"

namespace mtf {

// Runs `plan` over numbered rows on all ranks: takes the rows of each round,
// permutes the messages, and places what each rank holds and receives. Returns
// kInternal if a position of a window does not have its row exactly once, a
// rank reads a row that it does not hold, or the rounds send more than messages
// by distance would.
absl::Status ProveRowPlan(const RowPlan& plan);

struct RowProof {
  int rank_counts = 0;    // numbers of ranks that axes of the mesh have
  int64_t transfers = 0;  // all that exist
  int64_t proved = 0;
  bool complete() const { return proved == transfers; }
};

// Proves the plans of windows, shifts, slices, pads and concatenations of
// dimensions of 1 to 13 elements and of about four per rank, over every number
// of ranks that axes of `mesh` have together, within a time limit in seconds.
// Returns kInternal if a plan is wrong.
absl::StatusOr<RowProof> ProveRowPlans(const Mesh& mesh, double seconds);

}  // namespace mtf

#endif  // LAYOUTS_PROVE_ROWS_H_
