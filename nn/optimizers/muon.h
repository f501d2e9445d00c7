// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_MUON_H_
#define NN_OPTIMIZERS_MUON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/optimizer.h"
#include "nn/optimizers/parameter_groups.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

struct MuonOptions {
  Schedule learning_rate = 1e-3;
  double momentum = 0.95;
  bool nesterov = true;
  int iterations = 5;     // of Newton and Schulz
  double epsilon = 1e-7;  // least norm of a momentum
  // Scales updates of kernels by 0.2 * sqrt(max(fan_in, fan_out)), so that they
  // are as large as those of AdamW, and learning rate and weight decay serve
  // both (Liu et al., 2025). False: by sqrt(max(1, fan_out / fan_in)).
  bool match_adam = true;
  double weight_decay = 0.1;
  // Patterns of kernels (mtf/scope_pattern.h) that AdamW updates. Common for
  // the projection to the vocabulary: "cross_entropy".
  std::vector<std::string> adam_kernels = {};
  // Names of dimensions that stack matrices, each of which is made orthogonal
  // by itself, in addition to KernelDims::each.
  std::vector<std::string> stacked = {};
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.95;
  double adam_epsilon = 1e-8;
  std::vector<ParameterGroup> groups = {};
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  int64_t accumulate_steps = 1;      // steps per update
  double average_decay = 0;          // 0: no averages; see AverageScope
  LossScaleOptions loss_scale = {};  // for f16
  bool skip_non_finite = false;      // see OptimizerOptions
  std::string name = "muon";
};

// Muon (Jordan, 2024) for kernels, AdamW for all other parameters. A kernel is
// a matrix from the dimensions over which its layer sums to those of the result
// (VariableInfo::kernel), however many there are: nn::Kernel() records this, so
// all layers have it. Tables of embeddings, biases and scales are no kernels.
//
//   m <- momentum * m + (1 - momentum) * g
//   u <- orthogonal(m)   (nesterov: of momentum * m + (1 - momentum) * g)
//   kernel <- kernel * (1 - learning_rate * weight_decay)
//             - learning_rate * scale * u
//
// orthogonal(x) moves all singular values of x towards 1, by `iterations` of
//
//   x <- 3.4445 x - 4.775 (x x^T) x + 2.0315 (x x^T)^2 x
//
// from x / max(|x|, epsilon), in f32. The state of a kernel is
// "<name>/<variable>/momentum", f32. Where [optimizer] shards the larger side
// of a kernel, an iteration all_reduces x x^T, a matrix over the smaller side;
// where it shards the smaller side, an iteration gathers x and x x^T.
//
//   Tensor step = nn::Muon({.learning_rate = 1e-3,
//                           .adam_kernels = {"cross_entropy"}})
//                     .Minimize(loss);
//
// Errors are those of Minimize and Apply (nn/optimizers/optimizer.h), which
// also record kInvalidArgument if momentum or a beta is outside [0, 1), an
// epsilon is not positive, or iterations is not in [1, 100].
Optimizer Muon(MuonOptions options = {});

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_MUON_H_
