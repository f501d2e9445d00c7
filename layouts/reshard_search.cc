// SPDX-License-Identifier: Apache-2.0
#include "layouts/reshard_search.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "layouts/construct_reshard.h"
#include "mtf/check.h"

namespace mtf::internal {
namespace {

// The byte of a mesh axis in a State. Any other value is a place: 1 + 8 times
// the dimension plus the position in its list.
constexpr uint64_t kFree = 0;
constexpr uint64_t kFixed = 254;  // takes no part in this reshard
constexpr uint64_t kUnreduced = 255;
constexpr int kMostDims = 31;

// No search on a mesh of four axes comes near; it takes some 20 ms.
constexpr size_t kMostNodes = 50000;

uint64_t Place(int dim, int position) { return 1 + 8 * dim + position; }

uint64_t Get(uint64_t state, int axis) { return state >> (8 * axis) & 255; }

uint64_t Put(uint64_t state, int axis, uint64_t byte) {
  const uint64_t mask = uint64_t{255} << (8 * axis);
  return (state & ~mask) | byte << (8 * axis);
}

// Puts `axes` at the end of `dim`, whose list has `size` axes.
uint64_t Append(uint64_t state, int dim, int size, const AxisList& axes) {
  for (int axis : axes) state = Put(state, axis, Place(dim, size++));
  return state;
}

// Calls visit(list) for every ordered list of one or more axes of `set`.
template <class F>
void ForEachOrderedList(AxisSet set, AxisList& list, const F& visit) {
  for (int axis : ListOf(set)) {
    list.push_back(axis);
    visit(list);
    ForEachOrderedList(set & ~(AxisSet{1} << axis), list, visit);
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

  // An axis is settled when it cuts the same dimension at the same place at
  // both ends; it stays there. The others may move.
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
    if ((allowed & spare) != 0) has_spare_room_ = true;
    const bool changes = source.dims[i] != target.dims[i];
    if (!changes && (allowed & movable) == 0) continue;
    if (!changes && dims_.size() == kMostDims) continue;
    MTF_CHECK_LT(static_cast<int>(dims_.size()), kMostDims);
    dims_.push_back(i);
    allowed_.push_back(allowed);
    extents_.push_back(grains.ExtentOf(shape[i]));
    if (extents_.back() > 0 && whole_ > (int64_t{1} << 60) / extents_.back()) {
      whole_ = int64_t{1} << 60;  // beyond every memory; only order matters
    } else {
      whole_ *= extents_.back();
    }
    source_elements *= mesh_.SizeOf(source.dims[i]);
    target_elements_ *= mesh_.SizeOf(target.dims[i]);
  }
  source_elements = whole_ / source_elements;
  target_elements_ = whole_ / target_elements_;
  limit_ = std::max(source_elements, target_elements_);
}

ReshardProblem::State ReshardProblem::Encode(const TensorLayout& layout) const {
  State state = 0;
  for (int axis : ListOf(layout.Sharded() | layout.unreduced)) {
    state = Put(state, axis, kFixed);
  }
  for (int axis : ListOf(layout.unreduced & reducible_)) {
    state = Put(state, axis, kUnreduced);
  }
  for (size_t d = 0; d < dims_.size(); ++d) {
    state = Append(state, static_cast<int>(d), 0, layout.dims[dims_[d]]);
  }
  return state;
}

ReshardProblem::Parts ReshardProblem::Decode(State state) const {
  Parts parts;
  // Axes come in mesh order, so their positions are written, not appended.
  int axis_at[kMostDims][kMaxMeshAxes];
  int size[kMostDims] = {};
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    const uint64_t byte = Get(state, axis);
    if (byte == kFree) {
      parts.free |= AxisSet{1} << axis;
    } else if (byte == kUnreduced) {
      parts.unreduced |= AxisSet{1} << axis;
    } else if (byte != kFixed) {
      const int dim = static_cast<int>(byte - 1) / 8;
      axis_at[dim][(byte - 1) % 8] = axis;
      ++size[dim];
    }
  }
  parts.dims.resize(dims_.size());
  for (size_t d = 0; d < dims_.size(); ++d) {
    for (int i = 0; i < size[d]; ++i) parts.dims[d].push_back(axis_at[d][i]);
  }
  return parts;
}

TensorLayout ReshardProblem::LayoutOf(State state) const {
  const Parts parts = Decode(state);
  TensorLayout layout = source_;
  for (size_t d = 0; d < dims_.size(); ++d) {
    layout.dims[dims_[d]] = parts.dims[d];
  }
  layout.unreduced = (source_.unreduced & ~reducible_) | parts.unreduced;
  if (layout.unreduced == 0) layout.reduction = ReduceKind::kSum;
  return layout;
}

int64_t ReshardProblem::Elements(State state) const {
  int64_t shards = 1;
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    const uint64_t byte = Get(state, axis);
    if (byte != kFree && byte != kFixed && byte != kUnreduced) {
      shards *= mesh_.axis_size(axis);
    }
  }
  return whole_ / shards;
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
    const std::vector<ReshardStep>& path) const {
  absl::int128 cost = 0;
  int64_t elements = Elements(Encode(source_));
  for (const ReshardStep& step : path) {
    cost += Cost(step.kind, step.axes, elements);
    elements = Elements(Encode(step.layout));
  }
  return cost;
}

void ReshardProblem::ForEachMove(State state, Visit visit) const {
  // Among paths of equal cost the first found stays, so this order is the
  // order of taste: what shrinks the value comes first.
  const Parts parts = Decode(state);
  ForEachShrinking(state, parts, visit);
  ForEachAllReduce(state, parts, visit);
  ForEachMoveOfSuffix(state, parts, visit);
  ForEachPermute(state, parts, visit);
}

void ReshardProblem::ForEachShrinking(State state, const Parts& parts,
                                      Visit visit) const {
  AxisList list;
  for (int d = 0; d < static_cast<int>(dims_.size()); ++d) {
    const int64_t shards = mesh_.SizeOf(parts.dims[d]);
    const auto append = [&](CollectiveKind kind) {
      return [&, kind](const AxisList& axes) {
        if (extents_[d] % (shards * mesh_.SizeOf(axes)) != 0) return;
        visit({kind, dims_[d], -1, axes},
              Append(state, d, parts.dims[d].size(), axes));
      };
    };
    ForEachOrderedList(parts.free & allowed_[d], list,
                       append(CollectiveKind::kAllSlice));
    ForEachOrderedList(parts.unreduced & allowed_[d], list,
                       append(CollectiveKind::kReduceScatter));
  }
}

void ReshardProblem::ForEachAllReduce(State state, const Parts& parts,
                                      Visit visit) const {
  for (AxisSet set = parts.unreduced; set != 0;
       set = (set - 1) & parts.unreduced) {
    State next = state;
    for (int axis : ListOf(set)) next = Put(next, axis, kFree);
    visit({CollectiveKind::kAllReduce, -1, -1, ListOf(set)}, next);
  }
}

void ReshardProblem::ForEachMoveOfSuffix(State state, const Parts& parts,
                                         Visit visit) const {
  const int num_dims = static_cast<int>(dims_.size());
  for (int from = 0; from < num_dims; ++from) {
    for (int kept = parts.dims[from].size() - 1; kept >= 0; --kept) {
      const AxisList axes = parts.dims[from].Suffix(kept);
      for (int to = 0; to < num_dims; ++to) {
        if (to == from || (SetOf(axes) & ~allowed_[to]) != 0) continue;
        if (extents_[to] %
                (mesh_.SizeOf(parts.dims[to]) * mesh_.SizeOf(axes)) !=
            0) {
          continue;
        }
        visit({CollectiveKind::kAllToAll, dims_[to], dims_[from], axes},
              Append(state, to, parts.dims[to].size(), axes));
      }
      State gathered = state;
      for (int axis : axes) gathered = Put(gathered, axis, kFree);
      if (Elements(gathered) > limit_) continue;
      visit({CollectiveKind::kAllGather, dims_[from], -1, axes}, gathered);
    }
  }
}

void ReshardProblem::ForEachPermute(State state, const Parts& parts,
                                    Visit visit) const {
  State cleared = state;
  AxisSet axes = parts.free;
  for (const AxisList& list : parts.dims) {
    for (int axis : list) cleared = Put(cleared, axis, kFree);
    axes |= SetOf(list);
  }
  // Fills the dimensions one by one with axes whose sizes multiply to the
  // shards the dimension has.
  const auto fill = [&](const auto& self, int dim, int position, int64_t open,
                        AxisSet left, State next) -> void {
    while (open == 1) {
      if (++dim == static_cast<int>(dims_.size())) {
        if (next != state) {
          visit({CollectiveKind::kCollectivePermute, -1, -1, {}}, next);
        }
        return;
      }
      position = 0;
      open = mesh_.SizeOf(parts.dims[dim]);
    }
    for (int axis : ListOf(left & allowed_[dim])) {
      const int64_t size = mesh_.axis_size(axis);
      if (open % size != 0) continue;
      self(self, dim, position + 1, open / size, left & ~(AxisSet{1} << axis),
           Put(next, axis, Place(dim, position)));
    }
  };
  fill(fill, -1, 0, 1, axes, cleared);
}

AxisList ReshardProblem::ChangedAxes(State a, State b) const {
  // The place of an axis is its dimension and how many shards one step of its
  // coordinate skips; an axis with the same place keeps its coordinate.
  using Role = std::pair<int, int64_t>;
  const auto roles = [&](State state) {
    std::vector<Role> roles(mesh_.num_axes(), Role{-1, 0});
    const Parts parts = Decode(state);
    for (size_t d = 0; d < parts.dims.size(); ++d) {
      const AxisList& list = parts.dims[d];
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

std::vector<ReshardStep> ReshardProblem::Search() const {
  // A*: what a rank holds too little at the end must arrive over the wire, and
  // every collective grows a shard by no more than it sends. Only what could
  // beat the constructed path is followed.
  struct Node {
    State state;
    absl::int128 cost;
    int calls;
    int parent;
    Move move;
    bool done;
  };
  using Bound = std::tuple<absl::int128, int>;      // cost, calls
  using Open = std::tuple<absl::int128, int, int>;  // bound, node
  std::vector<ReshardStep> constructed = ConstructReshard(source_, target_);
  const Bound to_beat = {CostOf(constructed),
                         static_cast<int>(constructed.size())};
  std::vector<Node> nodes;
  absl::flat_hash_map<State, int> ids;  // only looked up
  std::priority_queue<Open, std::vector<Open>, std::greater<Open>> open;
  const State goal = Encode(target_);
  const auto reach = [&](State state, absl::int128 cost, int calls, int parent,
                         const Move& move) {
    const int64_t missing =
        std::max<int64_t>(0, target_elements_ - Elements(state));
    const Bound bound = {cost + absl::int128(missing) * scale_,
                         calls + (state == goal ? 0 : 1)};
    if (bound >= to_beat) return;
    const auto [found, inserted] =
        ids.emplace(state, static_cast<int>(nodes.size()));
    if (inserted) {
      nodes.push_back({state, cost, calls, parent, move, false});
    } else {
      Node& node = nodes[found->second];
      if (std::tie(node.cost, node.calls) <= std::tie(cost, calls)) return;
      node = {state, cost, calls, parent, move, false};
    }
    open.emplace(std::get<0>(bound), std::get<1>(bound), found->second);
  };
  reach(Encode(source_), 0, 0, -1, {});
  while (!open.empty() && nodes.size() < kMostNodes) {
    const int id = std::get<2>(open.top());
    open.pop();
    if (std::exchange(nodes[id].done, true)) continue;
    const Node node = nodes[id];  // a copy: `nodes` grows below
    if (node.state == goal) {
      std::vector<ReshardStep> path;
      for (int i = id; nodes[i].parent >= 0; i = nodes[i].parent) {
        const Node& after = nodes[i];
        Move move = after.move;
        if (move.kind == CollectiveKind::kCollectivePermute) {
          move.axes = ChangedAxes(nodes[after.parent].state, after.state);
        }
        path.push_back({move.kind, move.dim, move.from_dim, move.axes,
                        LayoutOf(after.state)});
      }
      std::reverse(path.begin(), path.end());
      return path;
    }
    const int64_t elements = Elements(node.state);
    ForEachMove(node.state, [&](const Move& move, State next) {
      if (nodes.size() >= kMostNodes) return;
      reach(next, node.cost + Cost(move.kind, move.axes, elements),
            node.calls + 1, id, move);
    });
  }
  return constructed;
}

}  // namespace mtf::internal
