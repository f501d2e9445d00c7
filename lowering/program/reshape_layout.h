// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_RESHAPE_LAYOUT_H_
#define LOWERING_PROGRAM_RESHAPE_LAYOUT_H_

#include <optional>
#include <utility>
#include <vector>

#include "layouts/tensor_layout.h"
#include "lowering/program/program.h"
#include "mtf/shape.h"

namespace mtf {

// Consecutive dimensions before a reshape, [before_begin, before_end), that
// hold the same elements as consecutive dimensions after it, [after_begin,
// after_end).
struct ReshapeGroup {
  int before_begin = 0, before_end = 0;
  int after_begin = 0, after_end = 0;

  // One dimension on each side: the reshape keeps it, perhaps renamed.
  bool IsRename() const {
    return before_end - before_begin == 1 && after_end - after_begin == 1;
  }
};

// Divides a reshape into the smallest such groups, left to right. A dimension
// of size 1 is a group of its own, with or without one of size 1 on the other
// side, or part of a larger group.
std::vector<ReshapeGroup> GroupReshape(const Shape& before, const Shape& after);

// Layouts of operand and result between which a reshape needs no communication.
struct ReshapeLayouts {
  TensorLayout before;
  TensorLayout after;
};

// Carries `layout` of `before` through a reshape to `after`. A renamed
// dimension keeps its sharding. Merged or split dimensions keep the sharding of
// the most significant dimension if the shards hold the same elements on both
// sides, which mostly needs sizes that divide, and if the rules can shard the
// dimensions of `after` so. Otherwise the dimensions are replicated in
// ReshapeLayouts::before, and the caller emits a gather. The pass plan_reshapes
// finds cheaper layouts.
ReshapeLayouts LineUpReshape(const Grains& grains, const Shape& before,
                             const TensorLayout& layout, const Shape& after);

// The layout of `after` under which each device holds the elements that it
// holds of `before` under `layout`, whether or not a rule can give it. nullopt
// if there is none.
std::optional<TensorLayout> CarryThroughReshape(const Grains& grains,
                                                const Shape& before,
                                                const TensorLayout& layout,
                                                const Shape& after);

// Whether a reshape between two values only renames dimensions: without those
// of size 1, both have the same sizes and local extents in the same order, so
// memory stays unchanged, padding included. `pairs` receives the corresponding
// dimensions, or is empty if the result is false.
bool IsRelabel(const ProgramValue& from, const ProgramValue& to,
               std::vector<std::pair<int, int>>* pairs = nullptr);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_RESHAPE_LAYOUT_H_
