// SPDX-License-Identifier: Apache-2.0
//
// Layouts that cut a dimension in one place and not in another, by its second
// names. No SearchSpace has them: there would be far too many.
#ifndef PLANNING_SEARCH_SEARCH_SECOND_NAMES_H_
#define PLANNING_SEARCH_SEARCH_SECOND_NAMES_H_

#include "planning/search/mesh_search.h"
#include "planning/search/search_space.h"

namespace mtf::internal {

// Adds to the findings of `context` some layouts next to those of `search` that
// cut products of matrices furthest:
//
//   outside    dimensions cut outside of layers alone, wherever they can be, in
//              the smallest layouts: sequence parallelism
//   exchanged  an ExchangeInside over some of the axes, where as much, or
//              nothing, is cut besides of the optimizer's state, and of
//              parameters, as can be: all-to-all attention. Over one axis next
//              to the best found, too.
//
// None where nothing is bounded.
void PriceBySecondNames(const SearchContext& context,
                        const SearchDimensions& dimensions,
                        const SearchSpace& space, const MeshSearch& search);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_SECOND_NAMES_H_
