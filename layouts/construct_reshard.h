// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_CONSTRUCT_RESHARD_H_
#define LAYOUTS_CONSTRUCT_RESHARD_H_

#include <vector>

#include "layouts/reshard_path.h"

namespace mtf::internal {

// A reshard by recipe, in a time that does not depend on what it finds:
// reduce and slice, so that only small shards travel; bring axes that change
// their dimension to the end of their lists; exchange them; put every list in
// its final order; gather what is too much. Never larger in memory than the
// larger end, but not always the cheapest. The search starts with it and falls
// back to it.
std::vector<ReshardStep> ConstructReshard(const TensorLayout& source,
                                          const TensorLayout& target);

}  // namespace mtf::internal

#endif  // LAYOUTS_CONSTRUCT_RESHARD_H_
