// SPDX-License-Identifier: Apache-2.0
#ifndef NN_LAYERS_BATCH_NORM_H_
#define NN_LAYERS_BATCH_NORM_H_

#include <source_location>
#include <string>

#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct BatchNormOptions {
  // How far a step moves the averages towards its own statistics, as in
  // PyTorch. TensorFlow's momentum is 1 minus this.
  double momentum = 0.1;
  double epsilon = 1e-5;
  bool scale = true;  // multiply by a parameter [features], initially 1
  bool bias = true;   // add a parameter [features], initially 0
  std::string name = "batch_norm";
};

// Batch normalization (Ioffe and Szegedy, 2015): normalizes each of `features`
// over all other dimensions of `x`.
//
//   (x - mean) / sqrt(variance + epsilon) * scale + bias
//
//   // [batch, height, width, channels]
//   Tensor y = nn::BatchNorm(x, channels);
//   Tensor step = nn::AdamW({...}).Minimize(loss);  // also moves the averages
//
// For training, mean and variance are those of `x`. The step of an optimizer
// also moves the variables "moving_mean" and "moving_variance" towards them
// (ops/track_average.h); nothing else does, so a fetch or an evaluation cannot
// disturb them. In a ModeScope(graph, Mode::kEvaluate) the layer normalizes
// with these averages. They are not trained and are saved with the parameters.
// As in PyTorch, the average variance is that of a sample, divided by n - 1.
// Two optimizers in one step whose losses share a layer would move its averages
// twice, which is an error: add up the losses, or run two steps.
//
// The statistics come from the sums of distances from the mean of a few
// elements and of their squares, in f32 and in one sweep, so a mean of many
// deviations costs no precision. Where a dimension other than `features` is
// sharded, both are reduced in one all_reduce, after another of [features] for
// the few, and so are their gradients: the statistics are those of the global
// batch, under every layout (PyTorch's SyncBatchNorm). The dtype of the result
// is the activation dtype of the PrecisionScope, by default that of `x`.
//
// Records kInvalidArgument in the graph if `x` is not a float, lacks `features`
// or has it in another size, or has fewer than two elements of a feature in
// training; if momentum is not in [0, 1]; or if epsilon is not positive and
// finite in f32. Returns an empty Tensor if `x` is empty.
Tensor BatchNorm(
    Tensor x, const Dimension& features, const BatchNormOptions& options = {},
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_LAYERS_BATCH_NORM_H_
