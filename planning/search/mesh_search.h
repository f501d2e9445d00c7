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
  const WorkloadSummary* workload;  // null: there are no bounds
  TrafficTable& traffic;
  SearchFrontier& frontier;
  // More layouts than SearchOptions::full_space.
  bool is_large = false;
  // A layout with the same role for two adjacent axes is one of a mesh with one
  // axis instead, which is searched too.
  bool meshes_of_fewer_axes = false;
};

// A layout with its bounds.
struct LayoutToPrice {
  AxisRoles roles;
  double seconds = 0, memory = 0;
};

// Prices layouts in parallel. Returns the error of one that does not lower, and
// nullopt for one that is known to take at least `worst` seconds.
std::vector<absl::StatusOr<std::optional<FoundLayout>>> PriceAll(
    const SearchContext& context, const SearchSpace& space,
    const std::vector<LayoutToPrice>& layouts, double worst);

class MeshSearch {
 public:
  // `context` and `space` must outlive the object.
  MeshSearch(const SearchContext& context, const SearchSpace& space);

  // Prices a few promising layouts: a good one rules most others out.
  void PricePromising();
  // Prices every layout that bounds do not rule out. Returns an error if none
  // lowers on this mesh.
  absl::Status PriceRemaining();

  // Seconds beyond which layouts are of no interest.
  double Worst() const;

  // Null if there are no bounds.
  const SearchBounds* bounds() const { return bounds_.get(); }

  // The dimensions each axis shards in the default section, and the layout with
  // the least memory bound among those seen with them.
  struct Default {
    std::vector<DimSet> sharded;
    std::optional<AxisRoles> smallest;
  };
  // Those that divide matmuls about as far as any, fastest first.
  std::vector<Default> NearlyFastest() const;

 private:
  using Places = std::array<uint16_t, kMaxMeshAxes>;
  // The default section of each axis, as an index of SearchSpace::groups.
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
  // By axis: the axis before it of equal size and speed, or -1.
  std::vector<int> before_;
  std::vector<Groups> groups_;
  std::set<std::pair<Places, bool>> priced_;
  // The smallest by its bound of each Groups::group that was looked at.
  std::map<Places, Candidate> smallest_;
  absl::Status error_;
};

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_MESH_SEARCH_H_
