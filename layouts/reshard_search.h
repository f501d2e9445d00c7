// SPDX-License-Identifier: Apache-2.0
//
// The search behind PlanReshard: which layouts exist between two layouts, and
// the cheapest way through them.
#ifndef LAYOUTS_RESHARD_SEARCH_H_
#define LAYOUTS_RESHARD_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/numeric/int128.h"
#include "layouts/reshard_path.h"

namespace mtf::internal {

// What a reshard may do. Only some dimensions matter: those whose axes change
// and those that could lend room to an axis that changes.
class ReshardProblem {
 public:
  ReshardProblem(const Grains& grains, const Shape& shape,
                 const TensorLayout& source, const TensorLayout& target);

  // True when a mesh axis that neither end uses could cut some dimension.
  // Only then can a detour through a finer layout save bytes in a reduction.
  bool HasSpareRoom() const { return has_spare_room_; }

  // A path of least bytes, then of fewest calls. On meshes of up to four axes
  // that is exact; when a search on more axes grows out of hand, the path of
  // ConstructReshard is as good as it gets.
  std::vector<ReshardStep> Search() const;

 private:
  // A layout in 64 bits: a byte for each mesh axis (see the .cc file).
  using State = uint64_t;

  // A layout taken apart.
  struct Parts {
    std::vector<AxisList> dims;  // of the dimensions that matter, in order
    AxisSet free = 0;
    AxisSet unreduced = 0;  // of those that may be reduced
  };

  struct Move {
    CollectiveKind kind = CollectiveKind::kAllSlice;
    int dim = -1;
    int from_dim = -1;
    AxisList axes;
  };

  State Encode(const TensorLayout& layout) const;
  Parts Decode(State state) const;
  TensorLayout LayoutOf(State state) const;
  // Elements per rank, of the dimensions that matter.
  int64_t Elements(State state) const;
  // Wire elements times `scale_`, which makes every cost a whole number.
  absl::int128 Cost(CollectiveKind kind, const AxisList& axes,
                    int64_t elements) const;
  absl::int128 CostOf(const std::vector<ReshardStep>& path) const;

  using Visit = absl::FunctionRef<void(const Move&, State)>;
  void ForEachMove(State state, Visit visit) const;
  void ForEachShrinking(State state, const Parts& parts, Visit visit) const;
  void ForEachAllReduce(State state, const Parts& parts, Visit visit) const;
  void ForEachMoveOfSuffix(State state, const Parts& parts, Visit visit) const;
  void ForEachPermute(State state, const Parts& parts, Visit visit) const;
  // The axes whose place, counted in shards, differs between two states.
  AxisList ChangedAxes(State a, State b) const;

  const Mesh& mesh_;
  const TensorLayout& source_;
  const TensorLayout& target_;
  std::vector<int> dims_;         // those that matter
  std::vector<AxisSet> allowed_;  // per dimension that matters
  std::vector<int64_t> extents_;  // likewise
  AxisSet reducible_ = 0;
  bool has_spare_room_ = false;
  int64_t whole_ = 1;  // elements of the dimensions that matter
  int64_t limit_ = 0;  // elements per rank that no step may exceed
  int64_t target_elements_ = 0;
  int64_t scale_ = 1;
};

}  // namespace mtf::internal

#endif  // LAYOUTS_RESHARD_SEARCH_H_
