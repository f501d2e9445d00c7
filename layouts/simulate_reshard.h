// SPDX-License-Identifier: Apache-2.0
//
// The six collectives on the shards of all ranks at once, in plain loops over
// one process's memory: what prove_reshards.h runs. Shares no partition
// arithmetic with the rest of layouts/: ranks are lists of coordinates here,
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

// What one rank holds: row-major places with extents of their own.
struct LocalTensor {
  std::vector<int64_t> extents;
  std::vector<int64_t> data;
};

class SimulatedMesh {
 public:
  // The mesh is to outlive this.
  explicit SimulatedMesh(const Mesh& mesh);

  int num_ranks() const { return static_cast<int>(coordinates_.size()); }
  int64_t At(int rank, int axis) const { return coordinates_[rank][axis]; }

  // The number made of the coordinates along `axes`, major to minor.
  int64_t Place(int rank, const AxisList& axes) const;

  // The ranks that share all coordinates with `rank` but those along `axes`,
  // in the order of their places.
  const std::vector<int>& GroupOf(int rank, const AxisList& axes);

  // What all ranks hold after `step`, which follows the layout `before`.
  // kInternal for a step that is no collective of equal parts, or in which
  // ranks do not trade one for one.
  absl::StatusOr<std::vector<LocalTensor>> Run(
      const ReshardStep& step, const TensorLayout& before,
      const std::vector<LocalTensor>& held);

 private:
  const Mesh& mesh_;
  std::vector<std::vector<int64_t>> coordinates_;
  // By axes as text: the group of each rank.
  struct Groups {
    std::vector<std::vector<int>> groups;
    std::vector<int> group_of;
  };
  std::map<std::string, Groups> groups_;
};

}  // namespace mtf::internal

#endif  // LAYOUTS_SIMULATE_RESHARD_H_
