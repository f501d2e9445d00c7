// SPDX-License-Identifier: Apache-2.0
#include "layouts/reshard_search.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "layouts/construct_reshard.h"

namespace mtf::internal {
namespace {

// The root of `axis` in a forest of axes.
int RootOf(const std::array<int8_t, kMaxMeshAxes>& parents, int axis) {
  while (parents[axis] >= 0) axis = parents[axis];
  return axis;
}

}  // namespace

absl::int128 ReshardProblem::SharedElements(const AxisUse& use) const {
  // Shards of a dimension meet only on ranks whose coordinates along the first
  // axes of the two lists agree, as far as the sizes of these axes agree. The
  // fraction of such ranks is 1/size for each condition that does not follow
  // from others: an edge of a forest of axes. Such ranks
  // share at most the finer of the two shards.
  std::array<int8_t, kMaxMeshAxes> parents;
  parents.fill(-1);
  absl::int128 divisor = 1;
  for (size_t d = 0; d < dims_.size(); ++d) {
    const AxisList& list = use.dims[d];
    const AxisList& wanted = target_.dims[dims_[d]];
    int i = 0;
    for (; i < std::min(list.size(), wanted.size()); ++i) {
      const int64_t size = mesh_.axis_size(list[i]);
      if (size != mesh_.axis_size(wanted[i])) break;
      divisor *= size;
      const int a = RootOf(parents, list[i]), b = RootOf(parents, wanted[i]);
      if (a == b) continue;
      parents[a] = static_cast<int8_t>(b);
      divisor *= size;
    }
    int64_t held = 1, needed = 1;
    for (int j = i; j < list.size(); ++j) held *= mesh_.axis_size(list[j]);
    for (int j = i; j < wanted.size(); ++j) {
      needed *= mesh_.axis_size(wanted[j]);
    }
    divisor *= std::max(held, needed);
  }
  return (absl::int128(total_elements_) * scale_ + divisor - 1) / divisor;
}

absl::int128 ReshardProblem::LowerBound(State state) const {
  const AxisUse use = Decode(state);
  if (use.unreduced == 0) {
    // Ranks receive at least the elements of the target that they lack.
    const absl::int128 wanted = absl::int128(target_elements_) * scale_;
    return std::max<absl::int128>(0, wanted - SharedElements(use));
  }
  // An element is a sum of n summands, and ends on `replicas` ranks. No rank
  // has it after n - 2 messages, and each further message gives it to one rank.
  const absl::int128 n = mesh_.SizeOf(use.unreduced);
  const absl::int128 total = absl::int128(total_elements_) * scale_;
  const absl::int128 replicas = absl::int128(ranks_) * target_elements_ /
                                std::max<int64_t>(1, total_elements_);
  return total * std::max<absl::int128>(0, n + replicas - 2) / ranks_;
}

// Searches layouts in the order of a lower bound on the cost of a path through
// them, so that the first path to reach the target is the cheapest. Layouts
// whose bound does not beat the cheapest known path are dropped.
class ReshardProblem::AStar {
 public:
  AStar(const ReshardProblem& problem, int64_t most_moves)
      : problem_(problem),
        most_moves_(most_moves),
        goal_(problem.Encode(problem.target_)) {
    Complete(-1, problem.source_);
  }

  ReshardPlan Run() {
    Reach(problem_.Encode(problem_.source_), 0, 0, -1, {});
    while (!open_.empty() && moves_ < most_moves_) {
      const Open next = open_.top();
      open_.pop();
      if (next.bound >= best_) break;
      if (nodes_[next.node].state == goal_) {
        return {.steps = PathTo(next.node), .moves = moves_};
      }
      if (next.permute) {
        Permute(next.node);
      } else if (!std::exchange(nodes_[next.node].done, true)) {
        Expand(next.node);
      }
    }
    return {.steps = std::move(path_),
            .cheapest = moves_ < most_moves_,
            .moves = moves_};
  }

 private:
  using Cost = std::pair<absl::int128, int>;  // elements sent, calls
  struct Node {
    State state;
    Cost cost;
    int parent;
    Move move;
    bool done;
  };
  struct Open {
    Cost bound;
    int node;
    bool permute;  // of the node, or all its other moves
    bool operator>(const Open& other) const {
      return std::tie(bound, node) > std::tie(other.bound, other.node);
    }
  };
  static constexpr Move kPermute = {
      CollectiveKind::kCollectivePermute, -1, -1, {}};
  // Completing a path is worth its time once a search has become long.
  static constexpr size_t kFewNodes = 256;

  void Reach(State state, absl::int128 sent, int calls, int parent,
             const Move& move) {
    ++moves_;
    const Cost bound = {sent + problem_.LowerBound(state),
                        calls + (state == goal_ ? 0 : 1)};
    if (bound >= best_) return;
    const Cost cost = {sent, calls};
    const auto [found, inserted] =
        ids_.emplace(state, static_cast<int>(nodes_.size()));
    if (inserted) {
      nodes_.push_back({state, cost, parent, move, false});
    } else {
      Node& node = nodes_[found->second];
      if (node.cost <= cost) return;
      node = {state, cost, parent, move, false};
    }
    open_.push({bound, found->second, false});
  }

  void Expand(int id) {
    const Node node = nodes_[id];  // a copy: `nodes_` grows below
    if (nodes_.size() > kFewNodes) {
      Complete(id, problem_.LayoutOf(node.state));
    }
    const int64_t elements = problem_.Elements(node.state);
    const int calls = node.cost.second + 1;
    problem_.ForEachMove(node.state, [&](const Move& move, State next) {
      if (moves_ >= most_moves_) return;
      Reach(next,
            node.cost.first + problem_.Cost(move.kind, move.axes, elements),
            calls, id, move);
    });
    // A collective_permute is tried late: it costs a whole shard wherever it
    // leads, and there are many. None is cheaper than the one to the target.
    const absl::int128 permuted =
        node.cost.first +
        problem_.Cost(CollectiveKind::kCollectivePermute, {}, elements);
    if (problem_.IsPermutedTarget(node.state)) {
      Reach(goal_, permuted, calls, id, kPermute);
      return;
    }
    const int64_t missing =
        std::max<int64_t>(0, problem_.target_elements_ - elements);
    const Cost bound = {permuted + absl::int128(missing) * problem_.scale_,
                        calls + 1};
    if (bound < best_) open_.push({bound, id, true});
  }

  void Permute(int id) {
    const Node node = nodes_[id];  // a copy: `nodes_` grows below
    const absl::int128 sent =
        node.cost.first + problem_.Cost(CollectiveKind::kCollectivePermute, {},
                                        problem_.Elements(node.state));
    problem_.ForEachPermute(node.state, [&](State next) {
      Reach(next, sent, node.cost.second + 1, id, kPermute);
      return moves_ < most_moves_;
    });
  }

  // Keeps the path to node `id` and from there, by construction, to the target
  // if it is the cheapest so far. `layout` is that of the node.
  void Complete(int id, const TensorLayout& layout) {
    std::vector<ReshardStep> rest = ConstructReshard(layout, problem_.target_);
    Cost cost = id < 0 ? Cost{0, 0} : nodes_[id].cost;
    cost.first += problem_.CostOf(layout, rest);
    cost.second += static_cast<int>(rest.size());
    if (has_path_ && cost >= best_) return;
    has_path_ = true;
    best_ = cost;
    path_ = id < 0 ? std::vector<ReshardStep>{} : PathTo(id);
    std::move(rest.begin(), rest.end(), std::back_inserter(path_));
  }

  std::vector<ReshardStep> PathTo(int id) const {
    std::vector<ReshardStep> path;
    for (; nodes_[id].parent >= 0; id = nodes_[id].parent) {
      const Node& after = nodes_[id];
      Move move = after.move;
      if (move.kind == CollectiveKind::kCollectivePermute) {
        move.axes =
            problem_.ChangedAxes(nodes_[after.parent].state, after.state);
      }
      path.push_back({move.kind, move.dim, move.from_dim, move.axes,
                      problem_.LayoutOf(after.state)});
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  const ReshardProblem& problem_;
  const int64_t most_moves_;
  const State goal_;
  int64_t moves_ = 0;
  std::vector<Node> nodes_;
  absl::flat_hash_map<State, int> ids_;  // only looked up
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  bool has_path_ = false;
  Cost best_;                      // of path_
  std::vector<ReshardStep> path_;  // the cheapest so far
};

ReshardPlan ReshardProblem::Search(int64_t most_moves) const {
  return AStar(*this, most_moves).Run();
}

}  // namespace mtf::internal
