// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_LOSS_SCALE_H_
#define NN_OPTIMIZERS_LOSS_SCALE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"

namespace mtf::nn {

// How gradients are kept within the range of f16, whose numbers below 6e-8 are
// zeros (Micikevicius et al., 2018): the gradient of scale * loss is taken, and
// divided by the scale in f32. Where it has an element that is not finite,
// nothing is updated and the scale shrinks; after `growth_interval` updates in
// a row it grows.
//
// Optimizers do so by themselves where a loss depends on values of f16, and
// only there: bf16 has the range of f32.
struct LossScaleOptions {
  double initial = 65536;
  double growth = 2;     // a factor
  double backoff = 0.5;  // a factor
  int64_t growth_interval = 2000;
  double least = 1;  // scale
  double most = 16777216;
};

namespace internal {

// Whether the gradients of `loss` pass through values of f16.
bool NeedsLossScale(Tensor loss);

absl::Status CheckLossScale(const LossScaleOptions& options);

// The state "loss_scale" and "loss_scale_updates" of an optimizer in the
// present scope, and what a step makes of it.
struct LossScale {
  Tensor scale;    // scalar f32
  Tensor updates;  // since the scale changed, scalar i32

  static LossScale Make(Graph& graph, const LossScaleOptions& options);
  // Gradients of the loss from those of scale * loss, in f32; empty ones stay
  // empty.
  std::vector<Tensor> Unscale(std::vector<Tensor> gradients) const;
  // The assignments of the next scale, after a step whose gradients were all
  // finite or not.
  std::vector<Tensor> Update(Tensor finite,
                             const LossScaleOptions& options) const;
};

// Whether every element of the f32 `gradients` is finite: a scalar bool, the
// same on all devices.
Tensor AllFinite(const std::vector<Tensor>& gradients);

}  // namespace internal
}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_LOSS_SCALE_H_
