// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PASSES_RESHAPE_CHOICE_H_
#define LOWERING_PASSES_RESHAPE_CHOICE_H_

#include <vector>

#include "layouts/tensor_layout.h"
#include "lowering/program/reshape_layout.h"
#include "lowering/program/spare_grains.h"
#include "mtf/shape.h"

namespace mtf {

// A reshape between reshards.
struct ReshapeProblem {
  Shape before, after;
  TensorLayout source;                // of the operand
  std::vector<TensorLayout> targets;  // that the result is read in
  int element_size = 0;
};

// The layouts of operand and result of the reshape that send the fewest bytes
// and, among those, take the fewest collectives: from the source to
// ReshapeLayouts::before and from ReshapeLayouts::after to every target.
// `current` is kept unless there is something better.
//
// Considers every layout in which the axes of merged or split dimensions shard
// any dimensions, if these are at most three axes and the mesh has at most
// four. Otherwise considers only the source and the targets, carried through
// the reshape.
ReshapeLayouts ChooseReshapeLayouts(const Grains& grains,
                                    const SpareGrains& spare,
                                    const ReshapeProblem& problem,
                                    const ReshapeLayouts& current);

}  // namespace mtf

#endif  // LOWERING_PASSES_RESHAPE_CHOICE_H_
