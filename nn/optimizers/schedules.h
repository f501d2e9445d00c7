// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_SCHEDULES_H_
#define NN_OPTIMIZERS_SCHEDULES_H_

#include <cstdint>
#include <functional>
#include <source_location>
#include <vector>

#include "mtf/tensor.h"

namespace mtf::nn {

// A learning rate, or a factor of it, as a function of the step: the number of
// earlier updates, which is 0 for the first. A number converts to the constant
// schedule.
//
//   nn::AdamW({.learning_rate = 3e-3 * nn::LinearWarmup(100) *
//                               nn::CosineDecay(100, 1000)})
//
// A schedule is created before it is used in a graph. An error in its arguments
// is kept and recorded in the graph, as kInvalidArgument, by At.
class Schedule {
 public:
  using Function = std::function<Tensor(Tensor step)>;

  // An error if `value` is not a non-negative number of f32.
  Schedule(double value,  // NOLINT: implicit conversion is intended
           std::source_location location = std::source_location::current());
  // `function` maps a scalar f32 step to a scalar f32 value. Optimizers record
  // kInvalidArgument if it returns anything else.
  explicit Schedule(Function function);

  // The value at the scalar f32 `step`: a scalar f32 tensor. Returns an empty
  // Tensor if `step` is empty.
  Tensor At(Tensor step) const;

 private:
  Function function_;
};

// (step + 1) / steps, at most 1. The first update has a factor greater than 0.
// An error if `steps` is less than 1.
Schedule LinearWarmup(int64_t steps, std::source_location location =
                                         std::source_location::current());

// 1 until `begin`, then linear to `final_value` at `end`, then constant. With
// p = (step - begin) / (end - begin), clamped to [0, 1]:
//
//   1 - (1 - final_value) * p
//
// An error if `begin` is not less than `end`, or `final_value` is not a
// non-negative number of f32.
Schedule LinearDecay(
    int64_t begin, int64_t end, double final_value = 0,
    std::source_location location = std::source_location::current());

// 1 until `begin`, then half a cosine wave to `final_value` at `end`, then
// constant (Loshchilov and Hutter, 2017, without restarts). With p as above:
//
//   final_value + (1 - final_value) * (1 + cos(pi * p)) / 2
//
// Errors are those of LinearDecay.
Schedule CosineDecay(
    int64_t begin, int64_t end, double final_value = 0,
    std::source_location location = std::source_location::current());

// 1 for the first `steps`, then sqrt(steps / (step + 1)). With LinearWarmup of
// equally many steps, the schedule of Vaswani et al., 2017. An error if `steps`
// is less than 1.
Schedule RsqrtDecay(int64_t steps, std::source_location location =
                                       std::source_location::current());

// Rises linearly from 1 / ratio to 1 during the first cut_fraction * steps,
// then falls linearly to 1 / ratio at `steps`, then is constant (Howard and
// Ruder, 2018):
//
//   (1 + p * (ratio - 1)) / ratio, where p rises from 0 to 1 and falls to 0
//
// An error if `steps` is less than 1, cut_fraction is not in (0, 1), or ratio
// is less than 1.
Schedule SlantedTriangular(
    int64_t steps, double cut_fraction = 0.1, double ratio = 32,
    std::source_location location = std::source_location::current());

struct SchedulePoint {
  int64_t step;
  double value;
};

// The value of the last point that is not after the step; before the first
// point, its value.
//
//   0.1 * nn::PiecewiseConstant({{0, 1}, {30000, 0.1}, {60000, 0.01}})
//
// An error if there is no point, the steps of the points do not increase, or a
// value is not a non-negative number of f32.
Schedule PiecewiseConstant(
    std::vector<SchedulePoint> points,
    std::source_location location = std::source_location::current());

// Linear between successive points; constant before the first and after the
// last. Errors are those of PiecewiseConstant.
Schedule PiecewiseLinear(
    std::vector<SchedulePoint> points,
    std::source_location location = std::source_location::current());

// The product of all factors; 1 if there are none.
Schedule Product(std::vector<Schedule> factors);
Schedule operator*(Schedule a, Schedule b);

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_SCHEDULES_H_
