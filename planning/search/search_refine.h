// SPDX-License-Identifier: Apache-2.0
//
// What is next to a layout: the same but for one rule
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

// The layouts that differ from `roles` in the rule of one dimension, in lists
// of those that change the same rule:
//
//   default      the dimension is cut over one axis more, or one less; then the
//                scoped sections follow, or stay as they are; or it is cut over
//                one more outside of layers, where it has second names inside
//   a scoped     it is cut over one axis more or less than in the default
//   section,     section, over every axis that is free, or over none
//   or both
//   [parameters] what is gathered for use is kept for the next, or it is not
//
// Only what Lower takes: no axis twice in one operation.
std::vector<std::vector<AxisRoles>> NextTo(const SearchDimensions& dimensions,
                                           const AxisRoles& roles);

// What was done from other starts of a space, by the rules of layouts.
struct Refined {
  std::set<std::string> left;  // left for the best next to it, if any is better
  std::set<std::string> tried;  // priced, and counted
};

// Goes from `start` to the best of what is next to it by one rule, and on from
// there, until nothing is faster (or smaller, as long as nothing fits). All
// that is priced is added to the findings. `bounds` may be null.
void Refine(const SearchContext& context, const SearchDimensions& dimensions,
            const SearchBounds* bounds, const Finding& start, Refined& refined);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_REFINE_H_
