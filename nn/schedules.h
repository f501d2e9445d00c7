// SPDX-License-Identifier: Apache-2.0
#ifndef NN_SCHEDULES_H_
#define NN_SCHEDULES_H_

#include <cstdint>
#include <functional>
#include <source_location>
#include <vector>

#include "mtf/tensor.h"

namespace mtf::nn {

// A learning rate, or a factor of one, as a function of the step: the number of
// updates made before this one, so 0 for the first. A number is the constant
// schedule.
//
//   nn::AdamW({.learning_rate = 3e-3 * nn::LinearWarmup(100) *
//                               nn::CosineDecay(100, 1000)})
class Schedule {
 public:
  using Function = std::function<Tensor(Tensor step)>;

  Schedule(double value);  // NOLINT: implicit on purpose
  // `function` maps a scalar f32 step to a scalar f32 value.
  explicit Schedule(Function function);

  // The value at the scalar f32 `step`, a scalar f32 tensor.
  Tensor At(Tensor step) const;

 private:
  Function function_;
};

// (step + 1) / steps until it reaches 1: the first update moves already.
Schedule LinearWarmup(int64_t steps, std::source_location location =
                                         std::source_location::current());

// 1 up to `begin`, then on a straight line to `final_value` at `end`, which it
// keeps.
Schedule LinearDecay(
    int64_t begin, int64_t end, double final_value = 0,
    std::source_location location = std::source_location::current());

// 1 up to `begin`, then half a wave down to `final_value` at `end`, which it
// keeps (Loshchilov and Hutter, 2017, without restarts).
Schedule CosineDecay(
    int64_t begin, int64_t end, double final_value = 0,
    std::source_location location = std::source_location::current());

// 1 for the first `steps`, then sqrt(steps / (step + 1)); with LinearWarmup of
// as many steps, the schedule of Vaswani et al., 2017.
Schedule RsqrtDecay(int64_t steps, std::source_location location =
                                       std::source_location::current());

// The product of all factors.
Schedule Product(std::vector<Schedule> factors);
Schedule operator*(Schedule a, Schedule b);

}  // namespace mtf::nn

#endif  // NN_SCHEDULES_H_
