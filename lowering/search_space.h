// SPDX-License-Identifier: Apache-2.0
//
// The layouts that a search looks at (lowering/search_rules.h).
#ifndef LOWERING_SEARCH_SPACE_H_
#define LOWERING_SEARCH_SPACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layouts/mesh.h"
#include "lowering/search_rules.h"

namespace mtf::internal {

// Bit i: dimension i of SearchSpace::dimensions.
using DimSet = uint64_t;

// What one mesh axis cuts. The scoped sections cut what the default one does
// and these besides.
struct AxisRole {
  DimSet cuts = 0;
  DimSet parameters = 0;
  DimSet optimizer = 0;
  friend bool operator==(const AxisRole&, const AxisRole&) = default;
};

struct SearchSpace {
  Mesh mesh;
  std::vector<int> axes;  // those of the mesh with more than one device
  std::vector<std::string> dimensions;
  // What an axis may do, the same for each. Grouped by `cuts`: those of group g
  // are roles[groups[g]] to roles[groups[g + 1]].
  std::vector<AxisRole> roles;
  std::vector<int> groups;
  bool restricted = false;

  int num_groups() const { return static_cast<int>(groups.size()) - 1; }
  double size() const;  // layouts
};

// Asks Lower on two devices which dimensions may share an axis.
absl::StatusOr<SearchSpace> MakeSearchSpace(const SearchProgram& program,
                                            const Mesh& mesh,
                                            const SearchOptions& options);

// A layout of the space: for each of `axes` a place in `roles`.
using Roles = std::vector<int>;

// Its rules, a line each, with sections.
std::string RulesText(const SearchSpace& space, const Roles& roles);

}  // namespace mtf::internal

#endif  // LOWERING_SEARCH_SPACE_H_
