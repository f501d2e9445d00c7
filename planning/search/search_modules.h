// SPDX-License-Identifier: Apache-2.0
//
// Layouts that shard a dimension in some scopes only, by sections [in ...].
// They are in no SearchSpace, which would become far too large.
#ifndef PLANNING_SEARCH_SEARCH_MODULES_H_
#define PLANNING_SEARCH_SEARCH_MODULES_H_

#include "planning/search/mesh_search.h"
#include "planning/search/search_space.h"

namespace mtf::internal {

// Adds to the frontier of `context` neighbours of those layouts of `search`
// that shard matmuls over most devices:
//
//   outside      dimensions are sharded only outside of layers, wherever
//                possible, in the smallest layouts: sequence parallelism
//   all-to-alls  an InnerAllToAll over some of the axes, with optimizer state
//                and parameters replicated or sharded as far as possible:
//                all-to-all attention; over one axis also as neighbours of the
//                best layouts found
//
// Does nothing without bounds.
void PriceByModules(const SearchContext& context,
                    const SearchDimensions& dimensions,
                    const SearchSpace& space, const MeshSearch& search);

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_MODULES_H_
