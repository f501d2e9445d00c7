// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_ADAFACTOR_H_
#define NN_OPTIMIZERS_ADAFACTOR_H_

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "mtf/tensor.h"
#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

struct AdafactorOptions {
  // Empty: the relative step min(0.01, 1 / sqrt(step + 1)), times 0.05 if
  // multiply_by_parameter_scale is false.
  std::optional<Schedule> learning_rate = std::nullopt;
  bool multiply_by_parameter_scale = true;  // by max(rms(parameter), epsilon2)
  double decay_exponent = 0.8;      // of beta2 = 1 - (step + 1)^-decay_exponent
  double beta1 = 0;                 // momentum of the update; 0 keeps no state
  double clipping_threshold = 1.0;  // of rms(update); 0: no clipping
  double epsilon1 = 1e-30;          // added to the squared gradient
  double epsilon2 = 1e-3;           // least scale of a parameter
  int64_t min_factored_size = 128;  // of both factored dimensions
  double max_gradient_norm = 0;     // 0: no clipping; see ClipByGlobalNorm
  LossScaleOptions loss_scale = {};  // for values of f16
  std::string name = "adafactor";
};

// Adafactor (Shazeer and Stern, 2018), algorithms 4 and 5. If the two largest
// dimensions of a parameter are at least min_factored_size, its second moment
// is factored into the means over each of the two; otherwise it has the shape
// of the parameter.
//
//   vr <- beta2 * vr + (1 - beta2) * mean over the largest of (g^2 + epsilon1)
//   vc <- beta2 * vc + (1 - beta2) * mean over the second   of (g^2 + epsilon1)
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
// Minimize and Apply are as in nn/optimizers/adam.h, with the same errors. Also
// records kInvalidArgument if beta1 is outside [0, 1), epsilon1 is not
// positive, or another number is negative or not finite.
class Adafactor {
 public:
  explicit Adafactor(AdafactorOptions options = {})
      : options_(std::move(options)) {}

  Tensor Minimize(Tensor loss, std::source_location location =
                                   std::source_location::current()) const;
  Tensor Apply(
      std::vector<Tensor> gradients, std::vector<Tensor> variables,
      std::source_location location = std::source_location::current()) const;

 private:
  AdafactorOptions options_;
};

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_ADAFACTOR_H_
