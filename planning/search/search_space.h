// SPDX-License-Identifier: Apache-2.0
//
// The layouts that a search looks at (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_SEARCH_SPACE_H_
#define PLANNING_SEARCH_SEARCH_SPACE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "layouts/mesh.h"
#include "planning/search/layer_scopes.h"
#include "planning/search/search_layouts.h"
#include "planning/search/search_step.h"

namespace mtf::internal {

// Which dimensions may be sharded together over one mesh axis, in one section.
struct Neighbours {
  DimSet ruled = 0;           // dimensions that the section has rules for
  DimSet dims = 0;            // those of them that are searched
  std::vector<DimSet> clash;  // by dimension: those in the same operation

  bool Fits(DimSet set, int dim) const { return (clash[dim] & set) == 0; }
};

// Sharding of a dimension between layers only, as in sequence parallelism:
// sections [in ...] lift its rule in the layers that shard other dimensions
// over the axis.
struct OuterSharding {
  DimSet frees = 0;  // dimensions that may then share its axis
  DimSet clash = 0;  // dimensions that cannot share its axis
};

// Within scopes one dimension is sharded over the axes of others, by a section
// [in ...]: all-to-all attention shards heads in place of lengths.
struct InnerAllToAll {
  std::string scope;  // "layer_*/attention/dot_product"
  int enters = 0;     // the dimension that is sharded there
  DimSet leave = 0;   // dimensions that are replicated there
};

// The dimensions of a step and their conflicts, for every mesh.
struct SearchDimensions {
  std::vector<std::string> names;
  int64_t num_layers = 1;  // of the model
  Neighbours defaults, parameters, optimizer;
  std::vector<OuterSharding> outside;  // by dimension
  std::vector<InnerAllToAll> all_to_alls;
  std::shared_ptr<const LayerScopes> scopes;
  // Dimensions that a restricted space leaves out of the sections of variables,
  // [parameters] and [optimizer]: those that always occur together with a
  // larger one, as d_kv with heads, and those of tensors with less than 1 % of
  // the stored bytes.
  DimSet minor = 0;
  // Dimensions of tensors with less than 0.1 % of the stored bytes: no rule is
  // tried for them.
  DimSet tiny = 0;
};

// Whether a model of `num_layers` layers has too many layouts to price them
// all.
inline bool IsLarge(double layouts, int64_t num_layers,
                    const SearchOptions& options) {
  return layouts * static_cast<double>(num_layers) > options.full_space;
}

// Finds which dimensions may share an axis, by lowering on two devices.
absl::StatusOr<SearchDimensions> FindSearchDimensions(
    const SearchStep& step, const SearchOptions& options);

// The dimensions sharded over one mesh axis. A section of variables shards
// those of the default section and its own.
struct AxisRole {
  DimSet sharded = 0;  // by the default section, in layers too
  DimSet parameters = 0;
  DimSet optimizer = 0;
  // Sharded between layers only. Empty in the roles of a SearchSpace.
  DimSet outside = 0;
  // The InnerAllToAll over this axis, an index in SearchSpace::all_to_alls, or
  // -1. The axis then shards its `leave` between layers. Always -1 in the roles
  // of a SearchSpace.
  int all_to_all = -1;

  // Dimensions that the default section shards.
  DimSet by_default() const { return sharded | outside; }
  friend bool operator==(const AxisRole&, const AxisRole&) = default;
};

struct SearchSpace {
  Mesh mesh;
  std::vector<int> axes;  // those of the mesh with more than one device
  std::vector<std::string> dimensions;
  std::vector<OuterSharding> outside;  // by dimension
  std::vector<InnerAllToAll> all_to_alls;
  std::shared_ptr<const LayerScopes> scopes;
  // The roles that each axis may have, grouped by AxisRole::sharded: group g is
  // roles[groups[g]] up to, but without, roles[groups[g + 1]].
  std::vector<AxisRole> roles;
  std::vector<int> groups;
  bool restricted = false;

  int num_groups() const { return static_cast<int>(groups.size()) - 1; }
  double size() const;  // number of layouts
};

absl::StatusOr<SearchSpace> MakeSearchSpace(const SearchDimensions& dimensions,
                                            const Mesh& mesh,
                                            const SearchOptions& options);

// A layout of the space: for each of `axes` an index in `roles`.
using Roles = std::vector<int>;
// Any layout, in the space or not.
struct AxisRoles {
  std::vector<AxisRole> axes;  // by index in SearchSpace::axes
  // Gathered parameters are kept until their next use.
  bool keep_gathered = false;

  bool shards_parameters() const {
    for (const AxisRole& role : axes) {
      if (role.parameters != 0) return true;
    }
    return false;
  }
  // Whether any dimension is sharded differently inside of layers than between
  // them, by sections [in ...]. False for all layouts of a SearchSpace.
  bool by_modules() const {
    for (const AxisRole& role : axes) {
      if (role.outside != 0 || role.all_to_all >= 0) return true;
    }
    return false;
  }
  friend bool operator==(const AxisRoles&, const AxisRoles&) = default;
};

AxisRoles RolesOf(const SearchSpace& space, const Roles& roles);

// Whether `dim` can be sharded between layers over an axis with this role.
bool CanShardOutside(const std::vector<OuterSharding>& outside, int dim,
                     const AxisRole& role);
// Shards `dim` between layers, in parameters and in optimizer state.
void ShardOutside(int dim, AxisRole& role);

// The rules of a layout, a line each, with sections.
std::string RulesText(const SearchSpace& space, const AxisRoles& roles);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_SPACE_H_
