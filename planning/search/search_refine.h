// SPDX-License-Identifier: Apache-2.0
//
// Local search: from a layout to its best neighbour, which differs in one rule
// (planning/search/search_layouts.h).
#ifndef PLANNING_SEARCH_SEARCH_REFINE_H_
#define PLANNING_SEARCH_SEARCH_REFINE_H_

#include <set>
#include <string>
#include <vector>

#include "planning/search/mesh_search.h"
#include "planning/search/search_frontier.h"
#include "planning/search/search_space.h"

namespace mtf::internal {

// The neighbours of `roles`: layouts that differ in the rule of one dimension,
// in one list per changed rule:
//
//   default       the dimension is sharded over one axis more or less, and the
//                 sections of variables follow or stay as they are; or it is
//                 sharded over one more axis outside of layers
//   [parameters], the dimension is sharded over one axis more or less than in
//   [optimizer]   the default section, over every free axis, or over none
//   or both
//   [parameters]  keep_gathered is set or cleared
//
// Layouts that use an axis twice in one operation are left out: Lower would
// reject them.
std::vector<std::vector<AxisRoles>> NextTo(const SearchDimensions& dimensions,
                                           const AxisRoles& roles);

// The state of all local searches in one space. Layouts are identified by their
// text.
struct Refined {
  std::set<std::string> expanded;  // starting points already expanded
  std::set<std::string> tried;     // layouts already priced and counted
};

// Moves from `start` to its best neighbour until no neighbour is faster (or
// smaller, as long as nothing fits). Adds every priced layout to the frontier
// of `context`. `bounds` may be null.
void Refine(const SearchContext& context, const SearchDimensions& dimensions,
            const SearchBounds* bounds, const PricedLayout& start,
            Refined& refined);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_REFINE_H_
