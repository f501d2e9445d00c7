// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_SCHEDULES_H_
#define NN_OPTIMIZERS_SCHEDULES_H_

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
//
// There is no graph yet to tell of a wrong argument, so a schedule keeps its
// error until it is asked for a value: then it is the first error of that graph
// (Graph::status(), Session::Create), kInvalidArgument.
class Schedule {
 public:
  using Function = std::function<Tensor(Tensor step)>;

  // An error unless `value` is a number of f32 from 0 up.
  Schedule(double value,  // NOLINT: implicit on purpose
           std::source_location location = std::source_location::current());
  // `function` maps a scalar f32 step to a scalar f32 value; the optimizers
  // record kInvalidArgument for anything else.
  explicit Schedule(Function function);

  // The value at the scalar f32 `step`: a scalar f32 tensor. An empty `step`
  // gives an empty Tensor.
  Tensor At(Tensor step) const;

 private:
  Function function_;
};

// (step + 1) / steps until it reaches 1: the first update moves already. An
// error where `steps` is less than 1.
Schedule LinearWarmup(int64_t steps, std::source_location location =
                                         std::source_location::current());

// 1 up to `begin`, then on a straight line to `final_value` at `end`, which it
// keeps. With p = (step - begin) / (end - begin), held within [0, 1]:
//
//   1 - (1 - final_value) * p
//
// An error unless `begin` is less than `end` and `final_value` a number of f32
// from 0 up.
Schedule LinearDecay(
    int64_t begin, int64_t end, double final_value = 0,
    std::source_location location = std::source_location::current());

// 1 up to `begin`, then half a wave down to `final_value` at `end`, which it
// keeps (Loshchilov and Hutter, 2017, without restarts). With p as above:
//
//   final_value + (1 - final_value) * (1 + cos(pi * p)) / 2
//
// An error unless `begin` is less than `end` and `final_value` a number of f32
// from 0 up.
Schedule CosineDecay(
    int64_t begin, int64_t end, double final_value = 0,
    std::source_location location = std::source_location::current());

// 1 for the first `steps`, then sqrt(steps / (step + 1)); with LinearWarmup of
// as many steps, the schedule of Vaswani et al., 2017. An error where `steps`
// is less than 1.
Schedule RsqrtDecay(int64_t steps, std::source_location location =
                                       std::source_location::current());

// The product of all factors, 1 of none.
Schedule Product(std::vector<Schedule> factors);
Schedule operator*(Schedule a, Schedule b);

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_SCHEDULES_H_
