// SPDX-License-Identifier: Apache-2.0
//
// The states of ReshardProblem, and the moves between them.
#include <algorithm>
#include <utility>

#include "layouts/reshard_search.h"
#include "mtf/check.h"

namespace mtf::internal {
namespace {

// The byte of a mesh axis in a State: one of these, or SlotByte of the
// dimension that the axis shards and its position in the list of that
// dimension.
constexpr uint64_t kFree = 0;
constexpr uint64_t kFixed = 254;  // does not change in this reshard
constexpr uint64_t kUnreduced = 255;
constexpr int kMostDims = 31;

uint64_t SlotByte(int dim, int position) { return 1 + 8 * dim + position; }

uint64_t ByteOf(uint64_t state, int axis) { return state >> (8 * axis) & 255; }

uint64_t WithByte(uint64_t state, int axis, uint64_t byte) {
  const uint64_t mask = uint64_t{255} << (8 * axis);
  return (state & ~mask) | byte << (8 * axis);
}

// `state` with `axes` appended to the list of `dim`, which has `size` axes.
uint64_t WithAppended(uint64_t state, int dim, int size, const AxisList& axes) {
  for (int axis : axes) state = WithByte(state, axis, SlotByte(dim, size++));
  return state;
}

// Calls visit(list) for every ordered list of one or more axes of `set`, of
// which choices(set) are those that may come next.
template <class Choices, class F>
void ForEachOrderedList(AxisSet set, const Choices& choices, AxisList& list,
                        const F& visit) {
  for (int axis : ListOf(choices(set))) {
    list.push_back(axis);
    visit(list);
    ForEachOrderedList(set & ~(AxisSet{1} << axis), choices, list, visit);
    list.pop_back();
  }
}

}  // namespace

ReshardProblem::ReshardProblem(const Grains& grains, const Shape& shape,
                               const TensorLayout& source,
                               const TensorLayout& target)
    : mesh_(grains.mesh()), source_(source), target_(target) {
  reducible_ = source.unreduced & ~target.unreduced;
  scale_ = mesh_.SizeOf(reducible_);

  // An axis is settled if it has the same dimension and position, or is
  // unreduced, at both ends: it does not move. The others may move.
  AxisSet settled = source.unreduced & target.unreduced;
  for (int i = 0; i < shape.rank(); ++i) {
    if (source.dims[i] == target.dims[i]) settled |= SetOf(source.dims[i]);
  }
  AxisSet movable = 0;
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    if (mesh_.axis_size(axis) > 1 && !(settled >> axis & 1)) {
      movable |= AxisSet{1} << axis;
    }
  }
  const AxisSet spare = movable & ~(source.Sharded() | target.Sharded() |
                                    source.unreduced | target.unreduced);
  int64_t source_elements = 1;
  target_elements_ = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    AxisSet allowed = grains.AxesOf(shape[i].name) | SetOf(source.dims[i]) |
                      SetOf(target.dims[i]);
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      if (mesh_.axis_size(axis) == 1) allowed &= ~(AxisSet{1} << axis);
    }
    if ((allowed & spare) != 0) has_spare_axis_ = true;
    const bool changes = source.dims[i] != target.dims[i];
    if (!changes && (allowed & movable) == 0) continue;
    if (!changes && dims_.size() == kMostDims) continue;
    MTF_CHECK_LT(static_cast<int>(dims_.size()), kMostDims);
    dims_.push_back(i);
    allowed_.push_back(allowed);
    extents_.push_back(grains.ExtentOf(shape[i]));
    if (extents_.back() > 0 &&
        total_elements_ > (int64_t{1} << 60) / extents_.back()) {
      // More than any memory: only the order of costs matters.
      total_elements_ = int64_t{1} << 60;
    } else {
      total_elements_ *= extents_.back();
    }
    source_elements *= mesh_.SizeOf(source.dims[i]);
    target_elements_ *= mesh_.SizeOf(target.dims[i]);
  }
  source_elements = total_elements_ / source_elements;
  target_elements_ = total_elements_ / target_elements_;
  limit_ = std::max(source_elements, target_elements_);

  AxisSet usable = reducible_;
  for (const AxisSet allowed : allowed_) usable |= allowed & ~settled;
  for (int i : dims_) usable |= SetOf(source.dims[i]);
  ranks_ = mesh_.SizeOf(usable);
  FindInterchangeableAxes();
}

void ReshardProblem::FindInterchangeableAxes() {
  const AxisSet needed = target_.Sharded() | target_.unreduced;
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    if (needed >> axis & 1) continue;
    for (int other = 0; other < axis; ++other) {
      if (needed >> other & 1) continue;
      if (mesh_.axis_size(other) != mesh_.axis_size(axis)) continue;
      bool alike = true;
      for (const AxisSet allowed : allowed_) {
        alike = alike && (allowed >> axis & 1) == (allowed >> other & 1);
      }
      if (alike) twins_[axis] |= AxisSet{1} << other;
    }
  }
}

AxisSet ReshardProblem::Representatives(AxisSet set) const {
  AxisSet first = set;
  for (int axis : ListOf(set)) {
    if ((twins_[axis] & set) != 0) first &= ~(AxisSet{1} << axis);
  }
  return first;
}

ReshardProblem::State ReshardProblem::Encode(const TensorLayout& layout) const {
  State state = 0;
  for (int axis : ListOf(layout.Sharded() | layout.unreduced)) {
    state = WithByte(state, axis, kFixed);
  }
  for (int axis : ListOf(layout.unreduced & reducible_)) {
    state = WithByte(state, axis, kUnreduced);
  }
  for (size_t d = 0; d < dims_.size(); ++d) {
    state = WithAppended(state, static_cast<int>(d), 0, layout.dims[dims_[d]]);
  }
  return state;
}

ReshardProblem::AxisUse ReshardProblem::Decode(State state) const {
  AxisUse use;
  // Axes are visited in mesh order, not in the order of the lists.
  int axis_at[kMostDims][kMaxMeshAxes];
  int size[kMostDims] = {};
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    const uint64_t byte = ByteOf(state, axis);
    if (byte == kFree) {
      use.free |= AxisSet{1} << axis;
    } else if (byte == kUnreduced) {
      use.unreduced |= AxisSet{1} << axis;
    } else if (byte != kFixed) {
      const int dim = static_cast<int>(byte - 1) / 8;
      axis_at[dim][(byte - 1) % 8] = axis;
      ++size[dim];
    }
  }
  use.dims.resize(dims_.size());
  for (size_t d = 0; d < dims_.size(); ++d) {
    for (int i = 0; i < size[d]; ++i) use.dims[d].push_back(axis_at[d][i]);
  }
  return use;
}

TensorLayout ReshardProblem::LayoutOf(State state) const {
  const AxisUse use = Decode(state);
  TensorLayout layout = source_;
  for (size_t d = 0; d < dims_.size(); ++d) {
    layout.dims[dims_[d]] = use.dims[d];
  }
  layout.unreduced = (source_.unreduced & ~reducible_) | use.unreduced;
  if (layout.unreduced == 0) layout.reduction = ReduceKind::kSum;
  return layout;
}

int64_t ReshardProblem::Elements(State state) const {
  int64_t shards = 1;
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    const uint64_t byte = ByteOf(state, axis);
    if (byte != kFree && byte != kFixed && byte != kUnreduced) {
      shards *= mesh_.axis_size(axis);
    }
  }
  return total_elements_ / shards;
}

absl::int128 ReshardProblem::Cost(CollectiveKind kind, const AxisList& axes,
                                  int64_t elements) const {
  const absl::int128 n = mesh_.SizeOf(axes);
  const absl::int128 operand = absl::int128(elements) * scale_;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (n - 1) * operand / n;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return (n - 1) * operand / n;
    case CollectiveKind::kAllGather:
      return (n - 1) * operand;
    case CollectiveKind::kCollectivePermute:
      return operand;
    case CollectiveKind::kAllSlice:
      return 0;
  }
  return 0;
}

absl::int128 ReshardProblem::CostOf(
    const TensorLayout& from, const std::vector<ReshardStep>& path) const {
  absl::int128 cost = 0;
  int64_t elements = Elements(Encode(from));
  for (const ReshardStep& step : path) {
    cost += Cost(step.kind, step.axes, elements);
    elements = Elements(Encode(step.layout));
  }
  return cost;
}

void ReshardProblem::ForEachMove(State state, Visit visit) const {
  // Among paths of equal cost the first one found is kept, so this order is the
  // order of preference: steps that shrink the value come first. Axes that are
  // interchangeable are free or unreduced in `state`, and free under the
  // target. A path that takes another of them first is the same path renamed.
  const AxisUse use = Decode(state);
  ForEachShrinkingMove(state, use, visit);
  ForEachAllReduce(state, use, visit);
  ForEachSuffixMove(state, use, visit);
}

void ReshardProblem::ForEachShrinkingMove(State state, const AxisUse& use,
                                          Visit visit) const {
  AxisList list;
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d) {
    const int64_t shards = mesh_.SizeOf(use.dims[d]);
    const auto append = [&](CollectiveKind kind) {
      return [&, kind](const AxisList& axes) {
        if (extents_[d] % (shards * mesh_.SizeOf(axes)) != 0) return;
        visit({kind, dims_[d], -1, axes},
              WithAppended(state, d, use.dims[d].size(), axes));
      };
    };
    const auto choices = [&](AxisSet set) { return Representatives(set); };
    ForEachOrderedList(use.free & allowed_[d], choices, list,
                       append(CollectiveKind::kAllSlice));
    ForEachOrderedList(use.unreduced & allowed_[d], choices, list,
                       append(CollectiveKind::kReduceScatter));
  }
}

void ReshardProblem::ForEachAllReduce(State state, const AxisUse& use,
                                      Visit visit) const {
  for (AxisSet set = use.unreduced; set != 0; set = (set - 1) & use.unreduced) {
    State next = state;
    const AxisSet rest = use.unreduced & ~set;
    bool first = true;  // of axes that are interchangeable
    for (int axis : ListOf(set)) first = first && (twins_[axis] & rest) == 0;
    if (!first) continue;
    for (int axis : ListOf(set)) next = WithByte(next, axis, kFree);
    visit({CollectiveKind::kAllReduce, -1, -1, ListOf(set)}, next);
  }
}

void ReshardProblem::ForEachSuffixMove(State state, const AxisUse& use,
                                       Visit visit) const {
  const int num_dims = static_cast<int>(dims_.size());
  for (int from = 0; from < num_dims; ++from) {
    for (int kept = use.dims[from].size() - 1; kept >= 0; --kept) {
      const AxisList axes = use.dims[from].Suffix(kept);
      for (int to = 0; to < num_dims; ++to) {
        if (to == from || (SetOf(axes) & ~allowed_[to]) != 0) continue;
        if (extents_[to] % (mesh_.SizeOf(use.dims[to]) * mesh_.SizeOf(axes)) !=
            0) {
          continue;
        }
        visit({CollectiveKind::kAllToAll, dims_[to], dims_[from], axes},
              WithAppended(state, to, use.dims[to].size(), axes));
      }
      State gathered = state;
      for (int axis : axes) gathered = WithByte(gathered, axis, kFree);
      if (Elements(gathered) > limit_) continue;
      visit({CollectiveKind::kAllGather, dims_[from], -1, axes}, gathered);
    }
  }
}

void ReshardProblem::ForEachPermute(
    State state, absl::FunctionRef<bool(State)> visit) const {
  const AxisUse use = Decode(state);
  State cleared = state;
  AxisSet axes = use.free;
  for (const AxisList& list : use.dims) {
    for (int axis : list) cleared = WithByte(cleared, axis, kFree);
    axes |= SetOf(list);
  }
  // Fills the lists of the dimensions, one after the other, with axes whose
  // sizes multiply to the number of shards of the dimension.
  const auto fill = [&](const auto& self, int dim, int position, int64_t open,
                        AxisSet left, State next) -> bool {
    while (open == 1) {
      if (++dim == static_cast<int>(dims_.size())) {
        return next == state || visit(next);
      }
      position = 0;
      open = mesh_.SizeOf(use.dims[dim]);
    }
    for (int axis : ListOf(left & allowed_[dim])) {
      const int64_t size = mesh_.axis_size(axis);
      if (open % size != 0) continue;
      if ((twins_[axis] & left & use.free) != 0 && (use.free >> axis & 1)) {
        continue;
      }
      if (!self(self, dim, position + 1, open / size,
                left & ~(AxisSet{1} << axis),
                WithByte(next, axis, SlotByte(dim, position)))) {
        return false;
      }
    }
    return true;
  };
  fill(fill, -1, 0, 1, axes, cleared);
}

bool ReshardProblem::IsPermutedTarget(State state) const {
  const AxisUse use = Decode(state);
  if (use.unreduced != 0) return false;
  for (size_t d = 0; d < dims_.size(); ++d) {
    if (mesh_.SizeOf(use.dims[d]) != mesh_.SizeOf(target_.dims[dims_[d]])) {
      return false;
    }
  }
  return true;
}

AxisList ReshardProblem::ChangedAxes(State a, State b) const {
  // The role of an axis is its dimension and the number of shards that one step
  // of its coordinate skips. An axis with an equal role keeps its coordinate.
  using Role = std::pair<int, int64_t>;
  const auto roles = [&](State state) {
    std::vector<Role> roles(mesh_.num_axes(), Role{-1, 0});
    const AxisUse use = Decode(state);
    for (size_t d = 0; d < use.dims.size(); ++d) {
      const AxisList& list = use.dims[d];
      for (int i = 0; i < list.size(); ++i) {
        roles[list[i]] = {static_cast<int>(d),
                          mesh_.SizeOf(list.Suffix(i + 1))};
      }
    }
    return roles;
  };
  const std::vector<Role> before = roles(a);
  const std::vector<Role> after = roles(b);
  AxisList axes;
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    if (before[axis] != after[axis]) axes.push_back(axis);
  }
  return axes;
}

}  // namespace mtf::internal
