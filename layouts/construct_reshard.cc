// SPDX-License-Identifier: Apache-2.0
#include "layouts/construct_reshard.h"

#include <algorithm>

#include "mtf/check.h"

namespace mtf::internal {
namespace {

class Construction {
 public:
  Construction(const TensorLayout& source, const TensorLayout& target)
      : layout_(source), target_(target), home_(kMaxMeshAxes, -1) {
    for (int i = 0; i < num_dims(); ++i) {
      for (int axis : target.dims[i]) home_[axis] = i;
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

  bool HasMovers() const {
    for (int i = 0; i < num_dims(); ++i) {
      for (int axis : layout_.dims[i]) {
        if (Moves(axis, i)) return true;
      }
    }
    return false;
  }

  // Makes the axes that change their dimension the last of their lists.
  void ExposeMovers() {
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
          if (to != i && home_[axis] == to) ordered.push_back(axis);
        }
      }
      list = ordered;
    }
    PermuteTo(exposed);
  }

  void ExchangeMovers() {
    for (int from = 0; from < num_dims(); ++from) {
      while (true) {
        AxisList& list = layout_.dims[from];
        if (list.empty() || !Moves(list.back(), from)) break;
        // As many at once as have the same home.
        const int to = home_[list.back()];
        int kept = list.size();
        while (kept > 0 && home_[list[kept - 1]] == to) --kept;
        const AxisList axes = list.Suffix(kept);
        list = list.Prefix(kept);
        layout_.dims[to].Append(axes);
        Add(CollectiveKind::kAllToAll, to, from, axes);
      }
    }
  }

  void PutInOrder() {
    TensorLayout ordered = layout_;
    for (int i = 0; i < num_dims(); ++i) {
      ordered.dims[i] = target_.dims[i];
      for (int axis : layout_.dims[i]) {
        if (home_[axis] < 0) ordered.dims[i].push_back(axis);
      }
    }
    PermuteTo(ordered);
  }

  void GatherTheRest() {
    for (int i = 0; i < num_dims(); ++i) {
      const int kept = target_.dims[i].size();
      if (layout_.dims[i].size() == kept) continue;
      const AxisList axes = layout_.dims[i].Suffix(kept);
      layout_.dims[i] = target_.dims[i];
      Add(CollectiveKind::kAllGather, i, -1, axes);
    }
  }

  std::vector<ReshardStep> TakePath() {
    MTF_CHECK(layout_ == target_) << "the recipe missed its target";
    return std::move(path_);
  }

 private:
  int num_dims() const { return static_cast<int>(layout_.dims.size()); }
  bool Moves(int axis, int dim) const {
    return home_[axis] >= 0 && home_[axis] != dim;
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

  // The lists of `ordered` are those of the layout in another order.
  void PermuteTo(const TensorLayout& ordered) {
    // Axes between two that trade places have another weight unless those are
    // of one size, so they take part.
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
  std::vector<int> home_;  // by axis: the dimension it cuts in the target
  std::vector<ReshardStep> path_;
};

}  // namespace

std::vector<ReshardStep> ConstructReshard(const TensorLayout& source,
                                          const TensorLayout& target) {
  Construction construction(source, target);
  construction.ReduceAndSlice();
  // What arrives at a dimension can hide what has yet to leave it.
  while (construction.HasMovers()) {
    construction.ExposeMovers();
    construction.ExchangeMovers();
  }
  construction.PutInOrder();
  construction.GatherTheRest();
  return construction.TakePath();
}

}  // namespace mtf::internal
