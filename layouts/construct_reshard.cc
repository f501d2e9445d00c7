// SPDX-License-Identifier: Apache-2.0
#include "layouts/construct_reshard.h"

#include <algorithm>

#include "mtf/check.h"

namespace mtf::internal {
namespace {

// Appends the steps of a path one by one; `layout_` is the layout after the
// last.
class ReshardConstruction {
 public:
  ReshardConstruction(const TensorLayout& source, const TensorLayout& target)
      : layout_(source), target_(target), target_dim_(kMaxMeshAxes, -1) {
    for (int i = 0; i < num_dims(); ++i) {
      for (int axis : target.dims[i]) target_dim_[axis] = i;
    }
  }

  void ReduceAndSlice() {
    const AxisSet reducible = layout_.unreduced & ~target_.unreduced;
    for (int i = 0; i < num_dims(); ++i) {
      Extend(CollectiveKind::kReduceScatter, i,
             Within(target_.dims[i], reducible));
    }
    const AxisSet used = layout_.Sharded() | layout_.unreduced;
    for (int i = 0; i < num_dims(); ++i) {
      Extend(CollectiveKind::kAllSlice, i, Within(target_.dims[i], ~used));
    }
    const AxisSet rest = layout_.unreduced & ~target_.unreduced;
    if (rest == 0) return;
    SetUnreduced(target_.unreduced);
    Add(CollectiveKind::kAllReduce, -1, -1, ListOf(rest));
  }

  bool HasMovingAxes() const {
    for (int i = 0; i < num_dims(); ++i) {
      for (int axis : layout_.dims[i]) {
        if (Moves(axis, i)) return true;
      }
    }
    return false;
  }

  // Makes the axes that move to another dimension the last of their lists,
  // those with the same target dimension adjacent.
  void PermuteMovingAxesToEnds() {
    TensorLayout exposed = layout_;
    for (int i = 0; i < num_dims(); ++i) {
      AxisList& list = exposed.dims[i];
      AxisList rest = list;
      while (!rest.empty() && Moves(rest.back(), i)) rest.pop_back();
      const bool hidden = std::any_of(rest.begin(), rest.end(),
                                      [&](int axis) { return Moves(axis, i); });
      if (!hidden) continue;
      AxisList ordered;
      for (int axis : list) {
        if (!Moves(axis, i)) ordered.push_back(axis);
      }
      for (int to = 0; to < num_dims(); ++to) {
        for (int axis : list) {
          if (to != i && target_dim_[axis] == to) ordered.push_back(axis);
        }
      }
      list = ordered;
    }
    PermuteTo(exposed);
  }

  // Moves the last axes of each list to their target dimension.
  void MoveAxes() {
    for (int from = 0; from < num_dims(); ++from) {
      while (true) {
        AxisList& list = layout_.dims[from];
        if (list.empty() || !Moves(list.back(), from)) break;
        // Move all axes with the same target dimension at once.
        const int to = target_dim_[list.back()];
        int kept = list.size();
        while (kept > 0 && target_dim_[list[kept - 1]] == to) --kept;
        const AxisList axes = list.Suffix(kept);
        list = list.Prefix(kept);
        layout_.dims[to].Append(axes);
        Add(CollectiveKind::kAllToAll, to, from, axes);
      }
    }
  }

  void PermuteToTargetOrder() {
    TensorLayout ordered = layout_;
    for (int i = 0; i < num_dims(); ++i) {
      ordered.dims[i] = target_.dims[i];
      for (int axis : layout_.dims[i]) {
        if (target_dim_[axis] < 0) ordered.dims[i].push_back(axis);
      }
    }
    PermuteTo(ordered);
  }

  void GatherExtraAxes() {
    for (int i = 0; i < num_dims(); ++i) {
      const int kept = target_.dims[i].size();
      if (layout_.dims[i].size() == kept) continue;
      const AxisList axes = layout_.dims[i].Suffix(kept);
      layout_.dims[i] = target_.dims[i];
      Add(CollectiveKind::kAllGather, i, -1, axes);
    }
  }

  std::vector<ReshardStep> TakePath() {
    MTF_CHECK(layout_ == target_) << "the path ends in another layout";
    return std::move(path_);
  }

 private:
  int num_dims() const { return static_cast<int>(layout_.dims.size()); }
  bool Moves(int axis, int dim) const {
    return target_dim_[axis] >= 0 && target_dim_[axis] != dim;
  }
  static AxisList Within(const AxisList& list, AxisSet set) {
    AxisList result;
    for (int axis : list) {
      if (set >> axis & 1) result.push_back(axis);
    }
    return result;
  }

  void Add(CollectiveKind kind, int dim, int from_dim, const AxisList& axes) {
    path_.push_back({kind, dim, from_dim, axes, layout_});
  }

  void Extend(CollectiveKind kind, int dim, const AxisList& axes) {
    if (axes.empty()) return;
    layout_.dims[dim].Append(axes);
    SetUnreduced(layout_.unreduced & ~SetOf(axes));
    Add(kind, dim, -1, axes);
  }

  void SetUnreduced(AxisSet set) {
    layout_.unreduced = set;
    if (set == 0) layout_.reduction = ReduceKind::kSum;
  }

  // Adds a collective_permute to `ordered`, which has the same axes per
  // dimension as layout_ in another order.
  void PermuteTo(const TensorLayout& ordered) {
    // Axes between two that swap positions change their stride too, unless the
    // two have the same size.
    AxisSet changed = 0;
    for (int i = 0; i < num_dims(); ++i) {
      const AxisList &before = layout_.dims[i], &after = ordered.dims[i];
      int first = 0, last = after.size() - 1;
      while (first <= last && before[first] == after[first]) ++first;
      while (last > first && before[last] == after[last]) --last;
      for (int p = first; p <= last; ++p) changed |= AxisSet{1} << after[p];
    }
    if (changed == 0) return;
    layout_ = ordered;
    Add(CollectiveKind::kCollectivePermute, -1, -1, ListOf(changed));
  }

  TensorLayout layout_;
  const TensorLayout& target_;
  std::vector<int> target_dim_;  // by axis: the dimension it shards in target_,
                                 // or -1
  std::vector<ReshardStep> path_;
};

}  // namespace

std::vector<ReshardStep> ConstructReshard(const TensorLayout& source,
                                          const TensorLayout& target) {
  ReshardConstruction construction(source, target);
  construction.ReduceAndSlice();
  // An axis that arrives at a dimension can come to stand after one that has
  // yet to leave it, so this may repeat.
  while (construction.HasMovingAxes()) {
    construction.PermuteMovingAxesToEnds();
    construction.MoveAxes();
  }
  construction.PermuteToTargetOrder();
  construction.GatherExtraAxes();
  return construction.TakePath();
}

}  // namespace mtf::internal
