// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_ALL_LAYOUTS_H_
#define LAYOUTS_ALL_LAYOUTS_H_

#include <vector>

#include "layouts/tensor_layout.h"

namespace mtf::internal {

// Adds to `layouts` every way to shard the dimensions from `dim` on over
// ordered lists of the axes in `free`, where `layout` has the dimensions before
// `dim`.
inline void AddLayouts(TensorLayout& layout, int dim, AxisSet free,
                       std::vector<TensorLayout>* layouts) {
  if (dim == static_cast<int>(layout.dims.size())) {
    layouts->push_back(layout);
    return;
  }
  AddLayouts(layout, dim + 1, free, layouts);
  for (int axis : ListOf(free)) {
    layout.dims[dim].push_back(axis);
    AddLayouts(layout, dim, free & ~(AxisSet{1} << axis), layouts);
    layout.dims[dim].pop_back();
  }
}

// Every layout of a value of `rank` dimensions: each mesh axis shards at most
// one dimension, in every order of axes. With `unreduced`, also the layouts
// with unreduced axes.
inline std::vector<TensorLayout> AllLayouts(const Mesh& mesh, int rank,
                                            bool unreduced) {
  const AxisSet all = (AxisSet{1} << mesh.num_axes()) - 1;
  std::vector<TensorLayout> layouts;
  for (AxisSet set = 0; set <= (unreduced ? all : 0); ++set) {
    TensorLayout layout = TensorLayout::Replicated(rank);
    layout.unreduced = set;
    AddLayouts(layout, 0, all & ~set, &layouts);
  }
  return layouts;
}

}  // namespace mtf::internal

#endif  // LAYOUTS_ALL_LAYOUTS_H_
