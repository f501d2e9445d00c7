// SPDX-License-Identifier: Apache-2.0
//
// Simulates the six collectives on the shards of all ranks, in plain loops, for
// prove_reshards.h. It shares no partition arithmetic with the rest of
// layouts/, so that it is an independent check: ranks are lists of coordinates,
// and extents follow from the data.
#ifndef LAYOUTS_SIMULATE_RESHARD_H_
#define LAYOUTS_SIMULATE_RESHARD_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layouts/reshard_path.h"

namespace mtf::internal {

// The shard of one rank, row-major.
struct LocalTensor {
  std::vector<int64_t> extents;
  std::vector<int64_t> data;
};

class SimulatedMesh {
 public:
  // `mesh` must outlive the simulation.
  explicit SimulatedMesh(const Mesh& mesh);

  int num_ranks() const { return static_cast<int>(coordinates_.size()); }
  int64_t At(int rank, int axis) const { return coordinates_[rank][axis]; }

  // The coordinate of `rank` along the combined `axes`, major to minor.
  int64_t Index(int rank, const AxisList& axes) const;

  // The ranks that differ from `rank` only along `axes`, in the order of Index.
  const std::vector<int>& GroupOf(int rank, const AxisList& axes);

  // The shards of all ranks after `step`, given their `shards` before it, in
  // the layout `before`. Returns kInternal if the step splits a tensor unevenly
  // or is a collective_permute that is not a permutation.
  absl::StatusOr<std::vector<LocalTensor>> Run(
      const ReshardStep& step, const TensorLayout& before,
      const std::vector<LocalTensor>& shards);

 private:
  const Mesh& mesh_;
  std::vector<std::vector<int64_t>> coordinates_;
  struct Groups {
    std::vector<std::vector<int>> groups;
    std::vector<int> group_of;  // by rank: index in `groups`
  };
  std::map<std::string, Groups> groups_;  // by axes, encoded as text
};

}  // namespace mtf::internal

#endif  // LAYOUTS_SIMULATE_RESHARD_H_
