// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_LOSS_SCALE_H_
#define NN_OPTIMIZERS_LOSS_SCALE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"

namespace mtf::nn {

// Dynamic loss scaling (Micikevicius et al., 2018), which keeps gradients
// within the range of f16, whose numbers below 6e-8 are 0. The optimizer
// computes the gradient of scale * loss and divides it by the scale in f32. If
// an element is not finite, it skips the update and multiplies the scale by
// `backoff`; after `growth_interval` successive updates it multiplies the scale
// by `growth`.
//
// Optimizers scale a loss that depends on f16 values and no other: bf16 has the
// range of f32.
struct LossScaleOptions {
  double initial = 65536;
  double growth = 2;
  double backoff = 0.5;
  int64_t growth_interval = 2000;
  double least = 1;        // lower limit of the scale
  double most = 16777216;  // upper limit of the scale
};

namespace internal {

// Whether the gradients of `loss` pass through values of f16.
bool NeedsLossScale(Tensor loss);

absl::Status CheckLossScale(const LossScaleOptions& options);

// The state of loss scaling: the variables "loss_scale" and
// "loss_scale_updates" in the current scope.
struct LossScale {
  Tensor scale;    // scalar f32
  Tensor updates;  // number of updates since the scale changed, scalar i32

  static LossScale Make(Graph& graph, const LossScaleOptions& options);
  // Divides gradients by the scale, in f32. Empty gradients stay empty.
  std::vector<Tensor> Unscale(std::vector<Tensor> gradients) const;
  // The assignments of the next scale. The scalar bool `finite` is whether all
  // gradients of the step were finite.
  std::vector<Tensor> Update(Tensor finite,
                             const LossScaleOptions& options) const;
};

// Whether every element of the f32 `gradients` is finite: a scalar bool, equal
// on all devices.
Tensor AllFinite(const std::vector<Tensor>& gradients);

}  // namespace internal
}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_LOSS_SCALE_H_
