// SPDX-License-Identifier: Apache-2.0
//
// The search on one mesh: bounds rule most layouts out, the rest are lowered
// (planning/search/search_layouts.h).
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

// What all meshes of a search have in common.
struct SearchContext {
  const SearchStep& step;
  const SearchPrices& prices;
  const SearchOptions& options;
  const LayoutPricer& pricer;
  const WorkloadSummary* workload;  // null: nothing is bounded
  TrafficTable& traffic;
  SearchFrontier& frontier;
  // More layouts than SearchOptions::full_space: only the best is proved.
  bool is_large = false;
  // Layouts that give two neighbouring axes the same are those of a mesh with
  // one axis in their place, which is searched too.
  bool meshes_of_fewer_axes = false;
};

// A layout with its bounds.
struct LayoutToPrice {
  AxisRoles roles;
  double seconds = 0, memory = 0;
};

// Prices layouts at once: what they cost, or why they do not lower. Nothing for
// one that takes no less than `worst` seconds, where that is seen before.
std::vector<absl::StatusOr<std::optional<FoundLayout>>> PriceAll(
    const SearchContext& context, const SearchSpace& space,
    const std::vector<LayoutToPrice>& layouts, double worst);

class MeshSearch {
 public:
  // `context` and `space` are to outlive it.
  MeshSearch(const SearchContext& context, const SearchSpace& space);

  // Prices a few that promise much: a good layout rules most others out.
  void PricePromising();
  // Prices every layout that bounds do not rule out. The error of a mesh on
  // which nothing lowers.
  absl::Status PriceRemaining();

  // Slower layouts are of no interest.
  double Worst() const;

  // Null where nothing is bounded.
  const SearchBounds* bounds() const { return bounds_.get(); }

  // What each axis cuts in the default section, and the smallest layout with
  // that by its bound, if any was looked at.
  struct Default {
    std::vector<DimSet> sharded;
    std::optional<AxisRoles> smallest;
  };
  // Those that cut products of matrices about as far as any, fastest first.
  std::vector<Default> NearlyFastest() const;

 private:
  using Places = std::array<uint16_t, kMaxMeshAxes>;
  // A choice of what each axis cuts in the default section.
  struct Groups {
    Places group = {};
    double compute = 0;
  };
  struct Candidate {
    Places role = {};
    bool once = false;  // AxisRoles::keep_gathered
    double seconds = 0, estimate = 0, memory = 0;
  };

  size_t num_axes() const { return space_.axes.size(); }
  // Whether the choices up to `axis` are those of a layout that counts.
  bool Counts(const Places& places, size_t axis) const;
  void ListGroups();
  void AddCandidates(const Groups& groups, std::vector<Candidate>& candidates);
  double Price(std::vector<Candidate>& batch);

  const SearchContext& context_;
  const SearchSpace& space_;
  SearchFrontier& frontier_;
  std::unique_ptr<SearchBounds> bounds_;
  // By place of an axis: the axis before it that is like it, or -1.
  std::vector<int> before_;
  std::vector<Groups> groups_;
  std::set<std::pair<Places, bool>> priced_;
  // The smallest by its bound of each Groups::group that was looked at.
  std::map<Places, Candidate> smallest_;
  absl::Status error_;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_MESH_SEARCH_H_
