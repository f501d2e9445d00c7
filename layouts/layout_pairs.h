// SPDX-License-Identifier: Apache-2.0
//
// The pairs of layouts of a mesh by number, for prove_reshards.h: a mesh of
// eight axes has too many to list.
#ifndef LAYOUTS_LAYOUT_PAIRS_H_
#define LAYOUTS_LAYOUT_PAIRS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "layouts/tensor_layout.h"

namespace mtf::internal {

// All pairs of a source and a target layout of a value with `dimensions`
// dimensions, where the unreduced axes of the target are unreduced in the
// source. In each layout a mesh axis shards at most one dimension, in every
// order of axes.
class LayoutPairs {
 public:
  LayoutPairs(const Mesh& mesh, int dimensions);

  int64_t size() const { return size_; }
  // Pair `number`, less than size().
  std::pair<TensorLayout, TensorLayout> At(int64_t number) const;

 private:
  // The pairs with given unreduced axes.
  struct Block {
    AxisSet source = 0;
    AxisSet target = 0;
    int64_t begin = 0;  // the number of the first pair
  };
  // The number of lists of `length` axes out of `axes`, divided in order among
  // the dimensions.
  int64_t ListsOf(int axes, int length) const;
  // The number of layouts with these unreduced axes, and layout `number` of
  // them.
  int64_t LayoutsWith(AxisSet unreduced) const;
  TensorLayout LayoutAt(AxisSet unreduced, int64_t number) const;

  int axes_;
  int dimensions_;
  std::vector<Block> blocks_;
  int64_t size_ = 0;
};

}  // namespace mtf::internal

#endif  // LAYOUTS_LAYOUT_PAIRS_H_
