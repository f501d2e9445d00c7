// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LOSSES_CROSS_ENTROPY_H_
#define NN_LOSSES_CROSS_ENTROPY_H_

#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct CrossEntropyOptions {
  // Takes this share of the target's probability and spreads it evenly over the
  // vocabulary (Szegedy et al., 2016).
  double label_smoothing = 0;
  // Adds z_loss * log(Z)^2, where Z is the sum of exp(logits): keeps logits
  // from drifting (Shazeer et al., 2018).
  double z_loss = 0;
  // What each position counts, over any of the dimensions of `targets`, in any
  // dtype: the loss is the weighted mean, 0 where all weights are. A position
  // of weight 0 is not seen, not even a NaN. Empty: all count the same.
  Tensor weights = Tensor();
  // The loss of each position, times its weight, instead of the mean.
  bool per_position = false;
  // For CrossEntropy: a [d_model, vocab] tensor, in any order, to project with,
  // such as the table of the embedding. Empty: new parameters.
  Tensor kernel = Tensor();
  // For CrossEntropy: the dimension of `x`, if it has one of this name, that is
  // "block_length" inside, as in FeedForward.
  std::string length = "length";
  std::string name = "cross_entropy";
};

// The mean over positions of -log softmax(logits)[target], in f32.
//
//   logits   [positions..., vocab]  any order
//   targets  [positions...]         integer
//   ->       f32: scalar, or [positions...] in the order of `logits`
//
//   Tensor loss = nn::SoftmaxCrossEntropy(logits, vocab, targets);
//
// The target's logit is a masked sum, not a gather, so with `vocab` sharded all
// work is local but for three reductions over positions. The gradient of the
// logits is softmax - onehot, over the number of positions. A target outside
// of the vocabulary matches nothing: give it the weight 0.
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for logits that are no float or lack `vocab`, targets that
// are no integer or not over the other dimensions of the logits, weights with a
// dimension that the targets lack, a label_smoothing outside of [0, 1], a
// z_loss that is negative or not finite in f32, a kernel, one of logits and
// targets that is empty, and a tensor of another graph. Two empty Tensors give
// an empty Tensor.
Tensor SoftmaxCrossEntropy(
    Tensor logits, Dimension vocab, Tensor targets,
    CrossEntropyOptions options = {},
    std::source_location location = std::source_location::current());

// Projects the last dimension of `x` to the vocabulary, without a bias, and
// takes the SoftmaxCrossEntropy against `targets`.
//
//   // x [batch, length, d_model], targets [batch, length] -> scalar
//   Tensor loss = nn::CrossEntropy(x, vocab, targets);
//
// Errors are those of SoftmaxCrossEntropy, with x for the logits, and
// kInvalidArgument for an x that is a scalar or whose last dimension the
// targets have, targets with the dimension `vocab`, and a kernel that is no
// float, not [d_model, vocab] or of another graph.
Tensor CrossEntropy(
    Tensor x, Dimension vocab, Tensor targets, CrossEntropyOptions options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LOSSES_CROSS_ENTROPY_H_
