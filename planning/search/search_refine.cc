// SPDX-License-Identifier: Apache-2.0
#include "planning/search/search_refine.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

namespace mtf::internal {
namespace {

// A rule must save at least this share of the step time.
constexpr double kWorthwhile = 1e-5;

bool IsLegal(const Neighbours& neighbours, DimSet set) {
  set &= neighbours.ruled;
  for (size_t i = 0; i < neighbours.clash.size(); ++i) {
    if ((set >> i & 1) != 0 && !neighbours.Fits(set, static_cast<int>(i))) {
      return false;
    }
  }
  return true;
}

// Collects the neighbours of one layout.
class Neighbourhood {
 public:
  Neighbourhood(const SearchDimensions& dimensions, const AxisRoles& roles)
      : dimensions_(dimensions), roles_(roles) {}

  std::vector<std::vector<AxisRoles>> List() {
    for (size_t i = 0; i < dimensions_.names.size(); ++i) {
      const DimSet dim = DimSet{1} << i;
      ChangeSections(dim, true, true);
      ChangeSections(dim, true, false);
      ChangeSections(dim, false, true);
      ChangeDefault(static_cast<int>(i));
    }
    AxisRoles kept = roles_;
    kept.keep_gathered = !kept.keep_gathered;
    std::vector<AxisRoles> list;
    Add(std::move(kept), list);
    lists_.push_back(std::move(list));
    return std::move(lists_);
  }

 private:
  bool IsLegal(const AxisRoles& roles) const {
    return std::all_of(
        roles.axes.begin(), roles.axes.end(), [this](const AxisRole& role) {
          return IsLegalOutside(role) &&
                 // An all_to_all frees dimensions, so conflicts that the table
                 // lists may not occur; Lower decides.
                 (role.all_to_all >= 0 ||
                  internal::IsLegal(dimensions_.defaults, role.sharded)) &&
                 internal::IsLegal(dimensions_.parameters,
                                   role.by_default() | role.parameters) &&
                 internal::IsLegal(dimensions_.optimizer,
                                   role.by_default() | role.optimizer);
        });
  }
  bool IsLegalOutside(const AxisRole& role) const {
    for (size_t i = 0; i < dimensions_.outside.size(); ++i) {
      if ((role.outside >> i & 1) != 0 &&
          (dimensions_.outside[i].clash & role.by_default()) != 0) {
        return false;
      }
    }
    return true;
  }
  void Add(AxisRoles roles, std::vector<AxisRoles>& list) const {
    roles.keep_gathered = roles.keep_gathered && roles.shards_parameters();
    if (roles != roles_ && IsLegal(roles)) list.push_back(std::move(roles));
  }

  void ChangeSections(DimSet dim, bool parameters, bool optimizer) {
    if ((dimensions_.tiny & dim) != 0) return;
    parameters = parameters && (dimensions_.parameters.dims & dim) != 0;
    optimizer = optimizer && (dimensions_.optimizer.dims & dim) != 0;
    if (!parameters && !optimizer) return;
    const auto assign = [&](AxisRole& role, bool shard) {
      shard = shard && (role.by_default() & dim) == 0;
      if (parameters) role.parameters &= ~dim;
      if (optimizer) role.optimizer &= ~dim;
      if (parameters && shard) role.parameters |= dim;
      if (optimizer && shard) role.optimizer |= dim;
    };
    std::vector<AxisRoles> list;
    for (bool shard : {true, false}) {
      AxisRoles all = roles_;
      for (size_t axis = 0; axis < roles_.axes.size(); ++axis) {
        AxisRoles one = roles_;
        assign(one.axes[axis], shard);
        Add(std::move(one), list);
        const AxisRole before = all.axes[axis];
        assign(all.axes[axis], shard);
        if (!IsLegal(all)) all.axes[axis] = before;
      }
      if (roles_.axes.size() > 1) Add(std::move(all), list);
    }
    lists_.push_back(std::move(list));
  }

  void ChangeDefault(int index) {
    const DimSet dim = DimSet{1} << index;
    std::vector<AxisRoles> list;
    for (size_t axis = 0; axis < roles_.axes.size(); ++axis) {
      AxisRoles changed = roles_;
      AxisRole& role = changed.axes[axis];
      role.parameters &= ~dim;
      role.optimizer &= ~dim;
      if ((role.by_default() & dim) == 0) {
        if (AxisRoles outside = changed;
            CanShardOutside(dimensions_.outside, index, role)) {
          ShardOutside(index, outside.axes[axis]);
          Add(std::move(outside), list);
        }
        role.sharded |= dim;
        Add(changed, list);
        continue;
      }
      role.sharded &= ~dim;
      role.outside &= ~dim;
      role.all_to_all = -1;
      Add(changed, list);
      role.parameters |= dim & dimensions_.parameters.dims;
      role.optimizer |= dim & dimensions_.optimizer.dims;
      Add(changed, list);
    }
    lists_.push_back(std::move(list));
  }

  const SearchDimensions& dimensions_;
  const AxisRoles& roles_;
  std::vector<std::vector<AxisRoles>> lists_;
};

// Whether to continue from `found` in place of `present`.
bool IsWorthwhile(const SearchFrontier& frontier, const FoundLayout& present,
                  const FoundLayout& found) {
  const bool fits = frontier.Fits(found);
  if (fits != frontier.Fits(present)) return fits;
  if (!fits && found.broken.size() != present.broken.size()) {
    return found.broken.size() < present.broken.size();
  }
  const auto cost = [fits](const FoundLayout& layout) {
    return fits ? layout.price.seconds
                : static_cast<double>(layout.memory_bytes());
  };
  if (cost(found) < cost(present) * (1 - kWorthwhile)) return true;
  // Equal cost with fewer rules.
  return cost(found) <= cost(present) &&
         found.memory_bytes() <= present.memory_bytes() &&
         found.rules.rules().size() < present.rules.rules().size();
}

}  // namespace

std::vector<std::vector<AxisRoles>> NextTo(const SearchDimensions& dimensions,
                                           const AxisRoles& roles) {
  return Neighbourhood(dimensions, roles).List();
}

void Refine(const SearchContext& context, const SearchDimensions& dimensions,
            const SearchBounds* bounds, const PricedLayout& start,
            Refined& refined) {
  SearchFrontier& frontier = context.frontier;
  const SearchSpace& space = *start.space;
  PricedLayout present = start;
  std::set<std::string> seen = {present.layout.text};
  const auto promises = [&](const AxisRoles& roles) {
    if (bounds == nullptr) return true;
    if (frontier.Fits(present.layout) &&
        !frontier.MayFit(bounds->MemoryOf(roles))) {
      return false;
    }
    std::vector<DimSet> sharded;
    for (const AxisRole& role : roles.axes) {
      sharded.push_back(role.by_default());
    }
    return !frontier.Fits(present.layout) ||
           bounds->ComputeSeconds(sharded) < present.layout.price.seconds;
  };
  // Steepest descent: to the best neighbour until none is worthwhile.
  for (bool changed = true; changed;) {
    changed = false;
    // Another start has already expanded this layout.
    if (!refined.expanded.insert(present.layout.text).second) return;
    std::vector<LayoutToPrice> layouts;
    for (std::vector<AxisRoles>& list : NextTo(dimensions, present.roles)) {
      for (AxisRoles& roles : list) {
        if (!seen.insert(RulesText(space, roles)).second) continue;
        if (promises(roles)) layouts.push_back({std::move(roles), 0, 0});
      }
    }
    // Layouts slower than one that fits need not be priced.
    const double limit = frontier.Fits(present.layout)
                             ? present.layout.price.seconds
                             : std::numeric_limits<double>::infinity();
    const auto found = PriceAll(context, space, layouts, limit);
    const FoundLayout before = present.layout;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].ok()) continue;
      const bool is_new =
          refined.tried.insert(RulesText(space, layouts[i].roles)).second;
      if (is_new) ++frontier.result.refined;
      if (!*found[i]) {
        if (is_new) ++frontier.result.lowered;
        continue;
      }
      PricedLayout next = {**found[i], &space, layouts[i].roles};
      next.slower_neighbour = !IsWorthwhile(frontier, before, next.layout);
      if (is_new) {
        frontier.Add(next);
      } else {
        frontier.Keep(next);
      }
      if (!IsWorthwhile(frontier, present.layout, next.layout)) continue;
      present = std::move(next);
      changed = true;
    }
  }
}

}  // namespace mtf::internal
