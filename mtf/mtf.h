// SPDX-License-Identifier: Apache-2.0
//
// Everything that a program needs to build a model and train it: graphs and
// dimensions, operations and their gradients, layers, losses, optimizers,
// sessions, checkpoints, data sets and the training loop.
//
//   #include "mtf/mtf.h"
//
// For programs only. This is the one header of mtf/ that includes folders above
// it; the sources of the library include the headers they use instead, and
// tests/include_floors checks both. Lowered programs, layouts as values and the
// cost model have headers of their own in lowering/, layouts/ and planning/.
#ifndef MTF_MTF_H_
#define MTF_MTF_H_

// Dimensions, tensors, graphs, dtypes and errors.
#include "mtf/dimension.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/host_tensor.h"
#include "mtf/precision.h"
#include "mtf/shape.h"
#include "mtf/status.h"
#include "mtf/tensor.h"

// Operations.
#include "ops/attention.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/convolution.h"
#include "ops/custom_gradient.h"
#include "ops/depend.h"
#include "ops/dynamic_shift.h"
#include "ops/dynamic_slice.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/gradients.h"
#include "ops/index.h"
#include "ops/input.h"
#include "ops/moments.h"
#include "ops/observe.h"
#include "ops/one_hot.h"
#include "ops/pad.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/random_categorical.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/scan.h"
#include "ops/shift.h"
#include "ops/slice.h"
#include "ops/sort.h"
#include "ops/split.h"
#include "ops/stack.h"
#include "ops/stop_gradient.h"
#include "ops/top_k.h"
#include "ops/track_average.h"
#include "ops/variable.h"
#include "ops/windows.h"

// Layers, attention, experts, losses and optimizers.
#include "nn/attention/attention.h"
#include "nn/attention/cached_attention.h"
#include "nn/attention/local_attention.h"
#include "nn/attention/masks.h"
#include "nn/attention/memory_compressed_attention.h"
#include "nn/attention/position_bias.h"
#include "nn/attention/rotary.h"
#include "nn/experts/experts.h"
#include "nn/layers/activations.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/convolution.h"
#include "nn/layers/dense.h"
#include "nn/layers/embedding.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/gradient_control.h"
#include "nn/layers/group_norm.h"
#include "nn/layers/initializers.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/layer_scope.h"
#include "nn/layers/parameter.h"
#include "nn/layers/regularization.h"
#include "nn/layers/reversible.h"
#include "nn/layers/rezero.h"
#include "nn/layers/sinusoid_positions.h"
#include "nn/layers/softmax.h"
#include "nn/layers/unit_scaling.h"
#include "nn/losses/cross_entropy.h"
#include "nn/losses/mean_squared_error.h"
#include "nn/losses/sigmoid_cross_entropy.h"
#include "nn/optimizers/adafactor.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/clip.h"
#include "nn/optimizers/lamb.h"
#include "nn/optimizers/lion.h"
#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/muon.h"
#include "nn/optimizers/optimizer.h"
#include "nn/optimizers/parameter_groups.h"
#include "nn/optimizers/schedules.h"
#include "nn/optimizers/sgd.h"

// Sessions, checkpoints, flags, data sets and the training loop.
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/safetensors_set.h"
#include "train/data/text_dataset.h"
#include "train/data/token_dataset.h"
#include "train/loop/flags.h"
#include "train/loop/metrics.h"
#include "train/loop/run_main.h"
#include "train/loop/text_sampler.h"
#include "train/loop/trainer.h"
#include "train/session/saved_state.h"
#include "train/session/session.h"

#endif  // MTF_MTF_H_
