// SPDX-License-Identifier: Apache-2.0
//
// Weighted means of losses over positions. Shared by the losses of this folder;
// not for users.
#ifndef NN_LOSSES_POSITION_WEIGHTS_H_
#define NN_LOSSES_POSITION_WEIGHTS_H_

#include "absl/status/status.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn::internal {

// Checks that `weights`, which may be empty, have only dimensions of `targets`.
absl::Status CheckWeights(Tensor weights, Tensor targets);

// The number of elements of `shape` per element of its subset `reduced`.
double CountOf(const Shape& shape, const Shape& reduced);

// The sum of `weights` over all positions, or 1 if it is 0.
Tensor TotalOf(const Shape& positions, Tensor weights);

// The factor of the loss of each position: its weight, or its fraction of all
// weights. Empty without weights. It has all positions; create it before the
// loss, so that the loss and its gradient are adjacent and fuse into one pass
// over the logits (lowering/passes/fuse_rows.h).
Tensor FactorsOf(const Shape& positions, Tensor weights, bool per_position);

// `loss` times weights. An infinite loss of weight 0 would be NaN.
Tensor Weighted(Tensor loss, Tensor weights);

// The losses of positions, or their mean. `factors` are those of FactorsOf.
Tensor Reduce(Tensor loss, Tensor factors, bool per_position);

}  // namespace mtf::nn::internal

#endif  // NN_LOSSES_POSITION_WEIGHTS_H_
