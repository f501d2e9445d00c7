// SPDX-License-Identifier: Apache-2.0
//
// The layouts that a search looks at (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_SEARCH_SPACE_H_
#define PLANNING_SEARCH_SEARCH_SPACE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "layouts/mesh.h"
#include "planning/search/search_layouts.h"
#include "planning/search/search_step.h"

namespace mtf::internal {

// Bit i: dimension i of SearchDimensions::names.
using DimSet = uint64_t;

// Which dimensions may share a mesh axis in one section.
struct Neighbours {
  DimSet ruled = 0;           // that the section rules
  DimSet dims = 0;            // of these, the ones to search
  std::vector<DimSet> clash;  // by dimension: those it cannot stand beside

  bool Fits(DimSet set, int dim) const { return (clash[dim] & set) == 0; }
};

// How a dimension is cut outside of layers alone, as the length is in sequence
// parallelism: its second names, which it has inside, keep the axes it had.
struct OuterSharding {
  std::vector<std::string> second_names;  // none: it has one name everywhere
  DimSet clash = 0;  // what then cannot be cut over the same axis
};

// How one dimension takes over the axes of others where all have second names:
// within attention, say, heads are cut instead of the lengths (all-to-all).
struct InnerAllToAll {
  int enters = 0;                                         // the dimension
  std::string second_name;                                // of it there
  DimSet leave = 0;                                       // the others
  std::vector<std::pair<int, std::string>> second_names;  // of them there
};

// What is known of a step before there is a mesh.
struct SearchDimensions {
  std::vector<std::string> names;
  int64_t num_layers = 1;  // of the model
  Neighbours defaults, parameters, optimizer;
  std::vector<OuterSharding> outside;  // by dimension
  std::vector<InnerAllToAll> all_to_alls;
  // What a restricted space leaves out of the scoped sections: dimensions that
  // always stand beside a larger one, as heads and d_kv, and those of less than
  // a hundredth of all that is stored.
  DimSet minor = 0;
  // Of less than a thousandth: no rule for them in a scoped section is worth
  // its line, and none is tried.
  DimSet tiny = 0;
};

// Whether a model of so many layers has too many layouts to price all.
inline bool IsLarge(double layouts, int64_t num_layers,
                    const SearchOptions& options) {
  return layouts * static_cast<double>(num_layers) > options.full_space;
}

// Asks Lower on two devices which dimensions may share an axis.
absl::StatusOr<SearchDimensions> FindSearchDimensions(
    const SearchStep& step, const SearchOptions& options);

// What one mesh axis cuts. The scoped sections cut what the default one does
// and these besides.
struct AxisRole {
  DimSet sharded = 0;
  DimSet parameters = 0;
  DimSet optimizer = 0;
  // Cut outside of layers and not inside. No role of a SearchSpace does.
  DimSet outside = 0;
  // What is exchanged over it, a place in SearchSpace::exchanges, or -1. It
  // then cuts what leaves. Nor does a role of a SearchSpace do that.
  int all_to_all = -1;

  // What rules of the default section without a second name say.
  DimSet by_first_name() const { return sharded | outside; }
  friend bool operator==(const AxisRole&, const AxisRole&) = default;
};

struct SearchSpace {
  Mesh mesh;
  std::vector<int> axes;  // those of the mesh with more than one device
  std::vector<std::string> dimensions;
  std::vector<OuterSharding> outside;  // by dimension
  std::vector<InnerAllToAll> all_to_alls;
  // What an axis may do, the same for each. Grouped by `cuts`: those of group g
  // are roles[groups[g]] to roles[groups[g + 1]].
  std::vector<AxisRole> roles;
  std::vector<int> groups;
  bool restricted = false;

  int num_groups() const { return static_cast<int>(groups.size()) - 1; }
  double size() const;  // layouts
};

absl::StatusOr<SearchSpace> MakeSearchSpace(const SearchDimensions& dimensions,
                                            const Mesh& mesh,
                                            const SearchOptions& options);

// A layout of the space: for each of `axes` a place in `roles`.
using Roles = std::vector<int>;
// Any layout, in the space or not.
struct AxisRoles {
  std::vector<AxisRole> axes;  // what each of SearchSpace::axes cuts
  // Parameters that are gathered for use are kept for the next use.
  bool keep_gathered = false;

  bool shards_parameters() const {
    for (const AxisRole& role : axes) {
      if (role.parameters != 0) return true;
    }
    return false;
  }
  // Whether a dimension is cut in one place and not in another, by its second
  // names. No layout of a SearchSpace does that.
  bool by_second_names() const {
    for (const AxisRole& role : axes) {
      if (role.outside != 0 || role.all_to_all >= 0) return true;
    }
    return false;
  }
  friend bool operator==(const AxisRoles&, const AxisRoles&) = default;
};

AxisRoles RolesOf(const SearchSpace& space, const Roles& roles);

// Whether dimension `dim` can be cut over an axis of `role` outside of layers.
bool CanShardOutside(const std::vector<OuterSharding>& outside, int dim,
                     const AxisRole& role);
// Cuts it there, which also cuts what rests in shards.
void ShardOutside(int dim, AxisRole& role);

// The rules of a layout, a line each, with sections.
std::string RulesText(const SearchSpace& space, const AxisRoles& roles);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_SPACE_H_
