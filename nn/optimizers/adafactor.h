// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_ADAFACTOR_H_
#define NN_OPTIMIZERS_ADAFACTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/optimizer.h"
#include "nn/optimizers/parameter_groups.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

struct AdafactorOptions {
  // Empty: the relative step min(0.01, 1 / sqrt(step + 1)), times 0.05 if
  // multiply_by_parameter_scale is false.
  std::optional<Schedule> learning_rate = std::nullopt;
  bool multiply_by_parameter_scale = true;  // by max(rms(parameter), epsilon2)
  double decay_exponent = 0.8;  // of decay = 1 - (step + 1)^-decay_exponent
  // If given, the decay is that of Adam with its bias correction:
  // beta2 * (1 - beta2^step) / (1 - beta2^(step + 1)).
  std::optional<double> beta2 = std::nullopt;
  double beta1 = 0;                 // momentum of the update; 0 keeps no state
  double clipping_threshold = 1.0;  // of rms(update); 0: no clipping
  double epsilon1 = 1e-30;          // added to the squared gradient
  double epsilon2 = 1e-3;           // least scale of a parameter
  double weight_decay = 0;          // decoupled, as that of AdamW
  int64_t min_factored_size = 128;  // of both factored dimensions
  // Patterns of parameters (mtf/scope_pattern.h): those whose second moment is
  // not factored, and those whose update is not multiplied by their scale.
  std::vector<std::string> unfactored = {};
  std::vector<std::string> unscaled = {};
  // Names of dimensions that stack parameters, such as "layers" or "experts":
  // each of the parameters has factors, a scale and clipping of its own.
  std::vector<std::string> stacked = {};
  std::vector<ParameterGroup> groups = {};
  double max_gradient_norm = 0;      // 0: no clipping; see ClipByGlobalNorm
  int64_t accumulate_steps = 1;      // steps per update
  double average_decay = 0;          // 0: no averages; see AverageScope
  LossScaleOptions loss_scale = {};  // for f16
  bool skip_non_finite = false;      // see OptimizerOptions
  std::string name = "adafactor";
};

// Adafactor (Shazeer and Stern, 2018), algorithms 4 and 5. If the two largest
// dimensions of a parameter are at least min_factored_size, its second moment
// is factored into the means over each of the two; otherwise it has the shape
// of the parameter.
//
//   vr <- decay * vr + (1 - decay) * mean over the largest of (g^2 + epsilon1)
//   vc <- decay * vc + (1 - decay) * mean over the second   of (g^2 + epsilon1)
//   u  <- g / sqrt(vr * vc / mean(vr over the second largest))
//   u  <- u / max(1, rms(u) / clipping_threshold)
//   parameter <- parameter - learning_rate * max(epsilon2, rms(parameter)) * u
//
// With beta1, the update is replaced by its moving average
// m <- beta1 * m + (1 - beta1) * update. State is f32: "vr" without the largest
// dimension of the parameter and "vc" without the second largest, or "v" with
// its shape; with beta1 also "m".
//
//   Tensor step = nn::Adafactor().Minimize(loss);
//
// Errors are those of Minimize and Apply (nn/optimizers/optimizer.h), which
// also record kInvalidArgument if a beta is outside [0, 1), epsilon1 is not
// positive, another number is negative or not finite, or no parameter has a
// dimension of `stacked`.
Optimizer Adafactor(AdafactorOptions options = {});

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_ADAFACTOR_H_
