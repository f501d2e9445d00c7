// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_RESHAPE_LAYOUT_H_
#define LOWERING_PROGRAM_RESHAPE_LAYOUT_H_

#include <utility>
#include <vector>

#include "layouts/tensor_layout.h"
#include "lowering/program/program.h"
#include "mtf/shape.h"

namespace mtf {

// A run of dimensions before a reshape that holds the same elements as a run
// of dimensions after it: [before_begin, before_end) and [after_begin,
// after_end).
struct ReshapeGroup {
  int before_begin = 0, before_end = 0;
  int after_begin = 0, after_end = 0;
};

// The shortest such runs, left to right. A dimension of size 1 is in a run of
// its own, opposite another or none, or within a run that needs more.
std::vector<ReshapeGroup> GroupReshape(const Shape& before, const Shape& after);

// The layouts between which a reshape is local.
struct ReshapeLayouts {
  TensorLayout before;
  TensorLayout after;
};

// Carries `layout` of `before` through a reshape to `after`. A rename keeps its
// cuts. A merge or split keeps the cut of the most significant dimension where
// the shards are the same elements on both sides, which needs sizes that
// divide; any other cut is given up: `before` has those dimensions whole, which
// the caller reaches by a gather that the plan shows.
ReshapeLayouts LineUpReshape(const Grains& grains, const Shape& before,
                             const TensorLayout& layout, const Shape& after);

// Pairs the dimensions of two values on one device, leaving out those of a
// single place, where a reshape between them only gives new names: equal sizes
// in equally many places, in the same order. Then memory stays as it is,
// padding included. `pairs` is empty and the result false for any other.
bool IsRelabel(const ProgramValue& from, const ProgramValue& to,
               std::vector<std::pair<int, int>>* pairs = nullptr);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_RESHAPE_LAYOUT_H_
