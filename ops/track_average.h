// SPDX-License-Identifier: Apache-2.0
//
// Moving averages of statistics that training steps update, such as those of
// batch normalization.
#ifndef OPS_TRACK_AVERAGE_H_
#define OPS_TRACK_AVERAGE_H_

#include <source_location>
#include <vector>

#include "mtf/tensor.h"

namespace mtf {

// Returns `x`. In each training step whose loss depends on the result, the
// variable `average` also moves towards `statistic` at the end of the step:
//
//   average <- average + momentum * (statistic - average)
//
//   // What a layer normalizes with, and what it remembers for evaluation.
//   mean = TrackAverage(mean, moving_mean, mean, 0.1);
//
// A training step is the result of Minimize() of an optimizer; a step that loss
// scaling skips moves no average. Fetching the result, or any other step,
// changes nothing: an evaluation cannot disturb an average. For a step of one's
// own, take the assignments from AverageUpdates(). The gradient passes to `x`.
//
// Records kInvalidArgument in the graph if `average` is not a variable,
// `statistic` has other dimensions or another dtype, momentum is not in [0, 1],
// or a tensor is empty or belongs to another graph. Returns an empty Tensor if
// `x` is empty.
Tensor TrackAverage(
    Tensor x, Tensor average, Tensor statistic, double momentum,
    std::source_location location = std::source_location::current());

// A variable and its value after a step.
struct AverageUpdate {
  Tensor average, next;
};

// The averages that a training step for `loss` updates, in the order in which
// their variables were first tracked. Averages that are tracked several times,
// as by a layer that is used twice, move by one statistic after the other.
//
//   std::vector<Tensor> updates = {nn::Sgd(...).Apply(gradients, parameters)};
//   for (const AverageUpdate& each : AverageUpdates(loss)) {
//     updates.push_back(Assign(each.average, each.next));
//   }
//   Tensor step = Group(graph, updates);
std::vector<AverageUpdate> AverageUpdates(Tensor loss);

}  // namespace mtf

#endif  // OPS_TRACK_AVERAGE_H_
