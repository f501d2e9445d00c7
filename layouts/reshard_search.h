// SPDX-License-Identifier: Apache-2.0
//
// The search of PlanReshard: an A* search over intermediate layouts.
#ifndef LAYOUTS_RESHARD_SEARCH_H_
#define LAYOUTS_RESHARD_SEARCH_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/numeric/int128.h"
#include "layouts/reshard_path.h"

namespace mtf::internal {

// A reshard problem, reduced to the dimensions that matter: those whose axes
// change, and those that could be sharded over an axis that changes.
class ReshardProblem {
 public:
  ReshardProblem(const Grains& grains, const Shape& shape,
                 const TensorLayout& source, const TensorLayout& target);

  // Whether a mesh axis that neither end uses could shard a dimension. Only
  // then can a detour through a finer layout save bytes in a reduction.
  bool HasSpareAxis() const { return has_spare_axis_; }

  // A path with the fewest bytes and, among those, the fewest steps. A search
  // that has tried `most_moves` stops and returns the cheapest path so far.
  ReshardPlan Search(int64_t most_moves) const;

 private:
  class AStar;
  // A layout in 64 bits: one byte per mesh axis (see the .cc file).
  using State = uint64_t;

  // A decoded State.
  struct AxisUse {
    absl::InlinedVector<AxisList, 5> dims;  // by dimension that matters
    AxisSet free = 0;                       // axes that may be used
    AxisSet unreduced = 0;                  // axes that are still to be reduced
  };

  struct Move {
    CollectiveKind kind = CollectiveKind::kAllSlice;
    int dim = -1;
    int from_dim = -1;
    AxisList axes;
  };

  State Encode(const TensorLayout& layout) const;
  AxisUse Decode(State state) const;
  TensorLayout LayoutOf(State state) const;
  // Sets `twins_`.
  void FindInterchangeableAxes();
  // Elements per rank of the dimensions that matter.
  int64_t Elements(State state) const;
  // Elements sent by each rank times `scale_`, which makes every cost an
  // integer.
  absl::int128 Cost(CollectiveKind kind, const AxisList& axes,
                    int64_t elements) const;
  absl::int128 CostOf(const TensorLayout& from,
                      const std::vector<ReshardStep>& path) const;

  // The elements, times `scale_`, that a rank must still send from `state` on:
  // no path sends fewer.
  absl::int128 LowerBound(State state) const;
  // The elements, times `scale_` and rounded up, that a rank holds on average
  // both under `use` and under the target; never too few.
  absl::int128 SharedElements(const AxisUse& use) const;

  using Visit = absl::FunctionRef<void(const Move&, State)>;
  // Every move but the collective_permutes.
  void ForEachMove(State state, Visit visit) const;
  void ForEachShrinkingMove(State state, const AxisUse& use, Visit visit) const;
  void ForEachAllReduce(State state, const AxisUse& use, Visit visit) const;
  void ForEachSuffixMove(State state, const AxisUse& use, Visit visit) const;
  // `visit` returns false to end the enumeration.
  void ForEachPermute(State state, absl::FunctionRef<bool(State)> visit) const;
  // Whether one collective_permute leads from `state` to the target.
  bool IsPermutedTarget(State state) const;
  // The axes of `set` that a move may take next: of those that are
  // interchangeable only the first.
  AxisSet Representatives(AxisSet set) const;
  // The axes whose dimension or stride, counted in shards, differs between two
  // states.
  AxisList ChangedAxes(State a, State b) const;

  const Mesh& mesh_;
  const TensorLayout& source_;
  const TensorLayout& target_;
  std::vector<int> dims_;         // the dimensions that matter
  std::vector<AxisSet> allowed_;  // by element of dims_: axes that may shard it
  std::vector<int64_t> extents_;  // by element of dims_: padded extent
  // By axis: the axes before it that are interchangeable with it.
  std::array<AxisSet, kMaxMeshAxes> twins_ = {};
  AxisSet reducible_ = 0;
  bool has_spare_axis_ = false;
  int64_t total_elements_ = 1;  // of the dimensions that matter, unsharded
  int64_t limit_ = 0;           // elements per rank that no step may exceed
  int64_t target_elements_ = 0;
  int64_t scale_ = 1;
  int64_t ranks_ = 1;  // over which the value can be sharded or reduced
};

}  // namespace mtf::internal

#endif  // LAYOUTS_RESHARD_SEARCH_H_
