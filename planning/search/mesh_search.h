// SPDX-License-Identifier: Apache-2.0
//
// The search on one mesh: lower bounds rule out most layouts, the others are
// lowered (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_MESH_SEARCH_H_
#define PLANNING_SEARCH_MESH_SEARCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "planning/search/layout_pricer.h"
#include "planning/search/search_bounds.h"
#include "planning/search/search_frontier.h"
#include "planning/search/search_layouts.h"
#include "planning/search/search_space.h"
#include "planning/search/search_step.h"

namespace mtf::internal {

// The state that the meshes of a search share.
struct SearchContext {
  const SearchStep& step;
  const SearchPrices& prices;
  const SearchOptions& options;
  const LayoutPricer& pricer;
  const WorkloadSummary* workload;  // null: no bounds
  TrafficTable& traffic;
  SearchFrontier& frontier;
  // There are more layouts than SearchOptions::full_space.
  bool is_large = false;
  // Meshes with fewer axes are searched too: a layout in which two adjacent
  // axes have the same role also is a layout of one of these.
  bool meshes_of_fewer_axes = false;
};

// A layout with its bounds.
struct LayoutToPrice {
  AxisRoles roles;
  double seconds = 0, memory = 0;
};

// Prices layouts in parallel. The result of a layout is the error if it does
// not lower, and nullopt if it is known to take at least `limit` seconds.
std::vector<absl::StatusOr<std::optional<FoundLayout>>> PriceAll(
    const SearchContext& context, const SearchSpace& space,
    const std::vector<LayoutToPrice>& layouts, double limit);

class MeshSearch {
 public:
  // `context` and `space` must outlive the object.
  MeshSearch(const SearchContext& context, const SearchSpace& space);

  // Prices a few promising layouts: a fast one rules out most others.
  void PricePromising();
  // Prices every layout that the bounds do not rule out. Returns an error if
  // none lowers on this mesh.
  absl::Status PriceRemaining();

  // A layout that takes at least this many seconds is not among the best.
  double SecondsLimit() const;

  // Null if there are no bounds.
  const SearchBounds* bounds() const { return bounds_.get(); }

  // A default section, as the dimensions that each axis shards, and the layout
  // with the lowest memory bound among those that were seen with it.
  struct Default {
    std::vector<DimSet> sharded;
    std::optional<AxisRoles> smallest;
  };
  // The default sections whose compute is nearly as fast as the fastest,
  // fastest first.
  std::vector<Default> NearlyFastest() const;

 private:
  using AxisIndices = std::array<uint16_t, kMaxMeshAxes>;
  // For each axis an index in SearchSpace::groups: the default section.
  struct Groups {
    AxisIndices group = {};
    double compute = 0;
  };
  struct Candidate {
    AxisIndices role = {};
    bool keep_gathered = false;
    double seconds = 0, estimate = 0, memory = 0;
  };

  size_t num_axes() const { return space_.axes.size(); }
  // Whether a layout with these choices up to `axis` is not a permutation of
  // another one: equal axes have ascending indices.
  bool IsCanonical(const AxisIndices& indices, size_t axis) const;
  void ListGroups();
  void AddCandidates(const Groups& groups, std::vector<Candidate>& candidates);
  double Price(std::vector<Candidate>& batch);

  const SearchContext& context_;
  const SearchSpace& space_;
  SearchFrontier& frontier_;
  std::unique_ptr<SearchBounds> bounds_;
  // By axis: the previous axis of equal size and speed, or -1.
  std::vector<int> previous_equal_;
  std::vector<Groups> groups_;
  std::set<std::pair<AxisIndices, bool>> priced_;
  // By Groups::group: the candidate with the lowest memory bound, if it was
  // listed.
  std::map<AxisIndices, Candidate> smallest_;
  absl::Status error_;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_MESH_SEARCH_H_
