// SPDX-License-Identifier: Apache-2.0
#include "lowering/passes/reshape_choice.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>

#include "layouts/all_layouts.h"
#include "layouts/reshard_path.h"
#include "layouts/shard.h"

namespace mtf {
namespace {

// More axes than this have too many layouts to try all of them.
constexpr int kMaxMovedAxes = 3;
// On larger meshes the path of one reshard can take a millisecond to plan.
constexpr int kMaxMeshAxesToTry = 4;

class ReshapeChooser {
 public:
  ReshapeChooser(const Grains& grains, const SpareGrains& spare,
                 const ReshapeProblem& problem)
      : grains_(grains), spare_(spare), problem_(problem) {
    for (const TensorLayout& target : problem.targets) {
      unreduced_ |= target.unreduced;
    }
  }

  ReshapeLayouts Best(const ReshapeLayouts& current) {
    best_ = current;
    cost_ = CostOf(current);
    if (cost_->bytes <= LeastBytes()) return best_;
    for (const TensorLayout& target : problem_.targets) {
      const auto before =
          CarryThroughReshape(grains_, problem_.after, target, problem_.before);
      if (before.has_value()) Consider(*before);
    }
    Consider(problem_.source);
    if (grains_.mesh().num_axes() > kMaxMeshAxesToTry) return best_;
    TensorLayout settled = problem_.source;
    const AxisSet moved = RemoveMovedAxes(settled);
    if (ListOf(moved).size() > kMaxMovedAxes) return best_;
    std::vector<TensorLayout> layouts;
    internal::AddLayouts(settled, 0, moved, &layouts);
    for (const TensorLayout& layout : layouts) Consider(layout);
    return best_;
  }

 private:
  struct Cost {
    int64_t bytes = 0;
    int64_t steps = 0;
    auto operator<=>(const Cost&) const = default;
  };

  // Adds the reshard of a value of `shape` to `cost`.
  void Add(const Shape& shape, const TensorLayout& from, const TensorLayout& to,
           Cost& cost) const {
    const std::vector<ReshardStep> path = PlanReshard(grains_, shape, from, to);
    cost.bytes += PathBytes(grains_, shape, from, path, problem_.element_size);
    cost.steps += static_cast<int64_t>(path.size());
  }

  Cost CostOf(const ReshapeLayouts& layouts) const {
    Cost cost;
    Add(problem_.before, problem_.source, layouts.before, cost);
    for (const TensorLayout& target : problem_.targets) {
      if (cost_.has_value() && cost >= *cost_) break;
      Add(problem_.after, layouts.after, target, cost);
    }
    return cost;
  }

  // A lower bound: a rank receives the elements that it lacks.
  int64_t LeastBytes() const {
    const int64_t held =
        LocalElements(grains_, problem_.before, problem_.source);
    int64_t most = 0;
    for (const TensorLayout& target : problem_.targets) {
      most = std::max(most, LocalElements(grains_, problem_.after, target));
    }
    return std::max<int64_t>(0, most - held) * problem_.element_size;
  }

  // Removes the axes from `layout` that may have to move: those of the groups
  // that the source and the targets do not shard alike. Returns them, those
  // that shard these groups in a target, and unused axes.
  AxisSet RemoveMovedAxes(TensorLayout& layout) const {
    AxisSet moved = 0;
    for (const ReshapeGroup& group :
         GroupReshape(problem_.before, problem_.after)) {
      TensorLayout alone = TensorLayout::Replicated(problem_.before.rank());
      for (int i = group.before_begin; i < group.before_end; ++i) {
        alone.dims[i] = problem_.source.dims[i];
      }
      const auto carried =
          CarryThroughReshape(grains_, problem_.before, alone, problem_.after);
      AxisSet axes = alone.Sharded();
      bool alike = carried.has_value();
      for (const TensorLayout& target : problem_.targets) {
        for (int i = group.after_begin; i < group.after_end; ++i) {
          axes |= SetOf(target.dims[i]);
          alike = alike && carried->dims[i] == target.dims[i];
        }
      }
      if (alike) continue;
      moved |= axes;
      for (int i = group.before_begin; i < group.before_end; ++i) {
        layout.dims[i] = {};
      }
    }
    // Axes that nothing uses can share the work, if there are few axes.
    AxisSet used = problem_.source.Sharded() | problem_.source.unreduced;
    for (const TensorLayout& target : problem_.targets) {
      used |= target.Sharded() | target.unreduced;
    }
    const Mesh& mesh = grains_.mesh();
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (ListOf(moved).size() < kMaxMovedAxes && mesh.axis_size(axis) > 1 &&
          !(used >> axis & 1)) {
        moved |= AxisSet{1} << axis;
      }
    }
    // A group that is sharded alike may use an axis of another group's target.
    return moved & ~layout.Sharded();
  }

  // Makes the choice `layout` of the operand the best one if it is better.
  void Consider(const TensorLayout& layout) {
    const TensorLayout& source = problem_.source;
    ConsiderReduced(layout, unreduced_);
    if (source.unreduced != unreduced_ &&
        source.reduction == ReduceKind::kSum) {
      ConsiderReduced(layout, source.unreduced);
    }
  }
  void ConsiderReduced(TensorLayout layout, AxisSet unreduced) {
    layout.unreduced = unreduced;
    layout.reduction =
        unreduced == 0 ? ReduceKind::kSum : problem_.source.reduction;
    if (!layout.IsLegal()) return;
    const auto after =
        CarryThroughReshape(grains_, problem_.before, layout, problem_.after);
    if (!after.has_value() || !spare_.Allows(grains_, problem_.before, layout,
                                             problem_.after, *after)) {
      return;
    }
    const ReshapeLayouts layouts{layout, *after};
    const Cost cost = CostOf(layouts);
    if (cost >= *cost_) return;
    best_ = layouts;
    cost_ = cost;
  }

  const Grains& grains_;
  const SpareGrains& spare_;
  const ReshapeProblem& problem_;
  AxisSet unreduced_ = 0;  // over which some target is unreduced
  ReshapeLayouts best_;
  std::optional<Cost> cost_;
};

}  // namespace

ReshapeLayouts ChooseReshapeLayouts(const Grains& grains,
                                    const SpareGrains& spare,
                                    const ReshapeProblem& problem,
                                    const ReshapeLayouts& current) {
  return ReshapeChooser(grains, spare, problem).Best(current);
}

}  // namespace mtf
