// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LOSSES_CROSS_ENTROPY_H_
#define NN_LOSSES_CROSS_ENTROPY_H_

#include <cstdint>
#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct CrossEntropyOptions {
  // Moves this fraction of the target probability to all classes, evenly
  // (Szegedy et al., 2016).
  double label_smoothing = 0;
  // Adds z_loss * log(Z)^2, where Z is the sum of exp(logits), which keeps
  // logits from drifting (Shazeer et al., 2018).
  double z_loss = 0;
  // The weight of each position, with any of the dimensions of positions, in
  // any dtype, such as `targets != 0` if 0 is padding. The loss is the weighted
  // mean, or 0 if all weights are 0. A NaN at a position of weight 0 does not
  // reach the loss. Empty: all weights are equal.
  Tensor weights = Tensor();
  // Return the loss of each position, times its weight, instead of the mean.
  bool per_position = false;
  // For CrossEntropy: the kernel [d_model, vocab] of the projection, in any
  // order, such as the table of the embedding. Empty: new parameters.
  Tensor kernel = Tensor();
  // For CrossEntropy: dimensions of positions with a kernel of its own for each
  // element, such as the members of an ensemble: [each..., d_model, vocab].
  Shape each = Shape();
  // For CrossEntropy of the mean: the number of blocks of positions that are
  // computed one after the other, each with its gradients, so that logits of
  // one block only are in memory. Each block adds to the gradient of the
  // kernel, which costs a pass over it, so few blocks are fastest. The last
  // bits of the loss may differ, because sums over positions are taken by
  // blocks. `blocks` divides the size of a dimension of positions that is not
  // in `each`; the last such dimension is divided. If a layout shards it, and
  // the quotient is a multiple of the number of shards, blocks need no
  // communication.
  int64_t blocks = 1;
  std::string name = "cross_entropy";
};

// The mean over positions of -log softmax(logits)[target], in f32.
//
//   logits   [positions..., vocab]  any order
//   targets  [positions...]         integer: a class for each position
//            [positions..., vocab]  float: the probability of each class
//   ->       f32: scalar, or [positions...] in the order of `logits`
//
//   Tensor loss = nn::SoftmaxCrossEntropy(logits, vocab, targets);
//
// The logit of the target is a masked sum, not a gather, so with `vocab`
// sharded the only communication is all_reduces of one number per position: of
// the maximum and of two sums, or three with probabilities. The gradient of the
// logits is softmax - onehot, divided by the number of positions. A target
// outside the vocabulary matches no class; give it weight 0.
//
// With probabilities q, the loss is -sum(q * log softmax(logits)). They need
// not add up to 1 and have a gradient; StopGradient() those of a teacher. A
// class with the logit -infinity and the probability 0 has no loss. They are
// smoothed, too.
//
// Records kInvalidArgument in the graph if the logits are not floats or lack
// `vocab`; the targets are neither integers nor floats over `vocab`, or do not
// have the other dimensions of the logits; the weights have a dimension that
// positions lack; label_smoothing is outside [0, 1]; z_loss is negative or not
// finite in f32; a kernel, .each or .blocks is given; one of logits and targets
// is empty; or a tensor belongs to another graph. Returns an empty Tensor if
// both are empty.
Tensor SoftmaxCrossEntropy(
    Tensor logits, Dimension vocab, Tensor targets,
    CrossEntropyOptions options = {},
    std::source_location location = std::source_location::current());

// Projects the last dimension of `x` to logits over `vocab`, without a bias,
// and returns their SoftmaxCrossEntropy.
//
//   // x [batch, length, d_model], targets [batch, length] -> scalar
//   Tensor loss = nn::CrossEntropy(x, vocab, targets);
//
// Errors are those of SoftmaxCrossEntropy, with `x` in place of the logits.
// Also records kInvalidArgument if `x` is a scalar, the targets have the last
// dimension of `x`, or are integers with `vocab`, the kernel is not a float, is
// not [each..., d_model, vocab], or belongs to another graph, `.each` has a
// dimension twice, the last one of `x` or one that it lacks, or `.blocks` is
// less than 1, divides no dimension of positions, or is given with
// `.per_position`.
Tensor CrossEntropy(
    Tensor x, Dimension vocab, Tensor targets, CrossEntropyOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LOSSES_CROSS_ENTROPY_H_
