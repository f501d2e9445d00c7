// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_CONSTRUCT_RESHARD_H_
#define LAYOUTS_CONSTRUCT_RESHARD_H_

#include <vector>

#include "layouts/reshard_path.h"

namespace mtf::internal {

// A reshard built without a search, in linear time:
//
//   1. reduce_scatter, all_slice and all_reduce, so that shards become small;
//   2. collective_permute, so that axes that move to another dimension are the
//      last of their dimension's list;
//   3. all_to_all, which moves these axes (2 and 3 repeat if necessary);
//   4. collective_permute, which brings each list into its final order;
//   5. all_gather over the axes that `target` lacks.
//
// No step takes more memory than the larger of `source` and `target`. The path
// is not always the cheapest: it is the search's upper bound and fallback.
std::vector<ReshardStep> ConstructReshard(const TensorLayout& source,
                                          const TensorLayout& target);

}  // namespace mtf::internal

#endif  // LAYOUTS_CONSTRUCT_RESHARD_H_
