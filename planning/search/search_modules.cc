// SPDX-License-Identifier: Apache-2.0
#include "planning/search/search_modules.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>
#include <vector>

#include "planning/search/search_bounds.h"

namespace mtf::internal {
namespace {

// The dimensions of `wanted` that an axis may shard in addition to `sharded`.
DimSet FreeDimensions(const Neighbours& neighbours, DimSet sharded,
                      DimSet wanted) {
  wanted &= neighbours.dims & ~sharded;
  for (size_t i = 0; i < neighbours.clash.size(); ++i) {
    if ((sharded & neighbours.ruled) >> i & 1) wanted &= ~neighbours.clash[i];
  }
  return wanted;
}

// The maximal sets of dimensions that one axis can shard in optimizer state.
std::vector<DimSet> MaximalSetsOfState(const SearchSpace& space) {
  // The first group shards nothing in the default section.
  std::set<DimSet> sets;
  for (int r = space.groups[0]; r < space.groups[1]; ++r) {
    sets.insert(space.roles[r].optimizer);
  }
  std::vector<DimSet> largest;
  for (DimSet set : sets) {
    const bool in_another = std::any_of(
        sets.begin(), sets.end(),
        [set](DimSet other) { return other != set && (other & set) == set; });
    if (!in_another) largest.push_back(set);
  }
  return largest;
}

class AllToAllLayouts {
 public:
  AllToAllLayouts(const SearchDimensions& dimensions, const SearchSpace& space,
                  const SearchBounds& bounds)
      : dimensions_(dimensions),
        space_(space),
        bounds_(bounds),
        states_(MaximalSetsOfState(space)) {}

  // Appends the layouts whose default section is `sharded`, except on the axes
  // of an all-to-all.
  void Add(const std::vector<DimSet>& sharded) {
    constexpr int kMostAxes = 3;
    for (size_t e = 0; e < space_.all_to_alls.size(); ++e) {
      for (size_t chosen = 1; chosen < size_t{1} << sharded.size(); ++chosen) {
        if (std::popcount(chosen) > kMostAxes) continue;
        std::vector<DimSet> key(sharded), changed(sharded);
        AxisRoles layout;
        for (size_t axis = 0; axis < sharded.size(); ++axis) {
          AxisRole& role = layout.axes.emplace_back();
          if (chosen >> axis & 1) {
            role.all_to_all = static_cast<int>(e);
            changed[axis] = space_.all_to_alls[e].leave;
            // Differs from every set of dimensions.
            key[axis] = ~static_cast<DimSet>(e);
          }
          role.sharded = changed[axis];
        }
        if (!seen_.insert(std::move(key)).second) continue;
        AddSections(layout, ~size_t{0}, bounds_.ComputeSeconds(changed));
      }
    }
  }

  // Appends the layouts that differ from `roles` in one axis, which has an
  // all-to-all.
  void AddNextTo(const AxisRoles& roles) {
    for (size_t e = 0; e < space_.all_to_alls.size(); ++e) {
      for (size_t axis = 0; axis < roles.axes.size(); ++axis) {
        AxisRoles layout = roles;
        layout.axes[axis] = {.sharded = space_.all_to_alls[e].leave,
                             .all_to_all = static_cast<int>(e)};
        layout.keep_gathered =
            layout.keep_gathered && layout.shards_parameters();
        AddSections(layout, size_t{1} << axis, 0);
      }
    }
  }

  std::vector<LayoutToPrice> Take() { return std::exchange(layouts_, {}); }

 private:
  void Append(const AxisRoles& layout, double compute) {
    layouts_.push_back({layout, compute, bounds_.MemoryOf(layout)});
  }

  // Appends `layout`, the smallest layout in which the axes of `which` (bits)
  // also shard optimizer state, and the smallest in which they shard parameters
  // too.
  void AddSections(const AxisRoles& layout, size_t which, double compute) {
    Append(layout, compute);
    for (bool parameters : {false, true}) {
      AxisRoles smallest = layout;
      double least = bounds_.MemoryOf(layout);
      for (DimSet state : states_) {
        AxisRoles smaller = layout;
        for (size_t axis = 0; axis < smaller.axes.size(); ++axis) {
          if ((which >> axis & 1) == 0) continue;
          AxisRole& role = smaller.axes[axis];
          role.optimizer =
              FreeDimensions(dimensions_.optimizer, role.sharded, state);
          if (!parameters) continue;
          role.parameters =
              FreeDimensions(dimensions_.parameters, role.sharded, state);
        }
        const double memory = bounds_.MemoryOf(smaller);
        if (memory >= least) continue;
        least = memory;
        smallest = std::move(smaller);
      }
      if (smallest != layout) Append(smallest, compute);
    }
  }

  const SearchDimensions& dimensions_;
  const SearchSpace& space_;
  const SearchBounds& bounds_;
  const std::vector<DimSet> states_;
  std::set<std::vector<DimSet>> seen_;
  std::vector<LayoutToPrice> layouts_;
};

// The smallest layout of each default section, with one dimension sharded
// outside of layers too, over every axis where it can be. The bounds assume the
// same sharding inside of layers, so only layouts that shard matmuls over most
// devices are useful.
std::vector<LayoutToPrice> ShardOutside(
    const SearchSpace& space, const SearchBounds& bounds,
    const std::vector<MeshSearch::Default>& defaults) {
  std::vector<LayoutToPrice> layouts;
  for (const MeshSearch::Default& found : defaults) {
    if (!found.smallest) continue;
    // Names are in the order of their first use: of the dimensions of an input
    // the last, as the length, is mostly the largest for each device.
    for (int dim = static_cast<int>(space.outside.size()) - 1; dim >= 0;
         --dim) {
      AxisRoles layout = *found.smallest;
      for (AxisRole& role : layout.axes) {
        if (CanShardOutside(space.outside, dim, role)) {
          internal::ShardOutside(dim, role);
        }
      }
      if (!layout.by_modules()) continue;
      const double memory = bounds.MemoryOf(layout);
      layouts.push_back({std::move(layout), 0, memory});
    }
  }
  return layouts;
}

}  // namespace

void PriceByModules(const SearchContext& context,
                    const SearchDimensions& dimensions,
                    const SearchSpace& space, const MeshSearch& search) {
  const SearchBounds* bounds = search.bounds();
  if (bounds == nullptr) return;
  const std::vector<MeshSearch::Default> defaults = search.NearlyFastest();
  SearchFrontier& frontier = context.frontier;
  const auto price = [&](const std::vector<LayoutToPrice>& layouts) {
    const auto found = PriceAll(context, space, layouts, search.SecondsLimit());
    for (size_t i = 0; i < layouts.size(); ++i) {
      if (!found[i].ok()) continue;  // not a legal layout
      ++frontier.result.by_modules;
      if (*found[i]) {
        frontier.Add({**found[i], &space, layouts[i].roles});
      } else {
        ++frontier.result.lowered;
      }
    }
  };

  constexpr size_t kMostOutside = 32, kBest = 2, kMostAllToAlls = 16;
  std::vector<LayoutToPrice> outside = ShardOutside(space, *bounds, defaults);
  const auto is_smaller = [](const LayoutToPrice& a, const LayoutToPrice& b) {
    return a.memory < b.memory;
  };
  std::stable_sort(outside.begin(), outside.end(), is_smaller);
  if (outside.size() > kMostOutside) outside.resize(kMostOutside);
  price(outside);

  AllToAllLayouts all_to_all_layouts(dimensions, space, *bounds);
  for (const PricedLayout& candidate : frontier.Best(kBest)) {
    if (candidate.space == &space) {
      all_to_all_layouts.AddNextTo(candidate.roles);
    }
  }
  price(all_to_all_layouts.Take());
  for (const MeshSearch::Default& found : defaults) {
    all_to_all_layouts.Add(found.sharded);
  }
  std::vector<LayoutToPrice> candidates = all_to_all_layouts.Take();
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const LayoutToPrice& a, const LayoutToPrice& b) {
                     return a.seconds < b.seconds;
                   });
  // First the layouts that may fit, by compute time, then the smallest.
  const auto too_large = std::stable_partition(
      candidates.begin(), candidates.end(), [&](const LayoutToPrice& layout) {
        return frontier.MayFit(layout.memory);
      });
  std::stable_sort(too_large, candidates.end(), is_smaller);
  if (!frontier.Best(1).empty()) candidates.erase(too_large, candidates.end());
  if (candidates.size() > kMostAllToAlls) candidates.resize(kMostAllToAlls);
  price(candidates);
}

}  // namespace mtf::internal
