// SPDX-License-Identifier: Apache-2.0
//
// What the optimizers of this folder have in common. Not for users.
#ifndef NN_OPTIMIZERS_OPTIMIZER_H_
#define NN_OPTIMIZERS_OPTIMIZER_H_

#include <functional>
#include <source_location>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn::internal {

// One parameter in the middle of its update; tensors are f32. Where the
// parameter has a master copy, `value` is that. A `commit` that is not empty, a
// scalar bool, says whether anything changes.
class ParameterUpdate {
 public:
  ParameterUpdate(const VariableInfo& variable, Tensor value, Tensor gradient,
                  Tensor commit = Tensor())
      : variable(variable), value(value), gradient(gradient), commit(commit) {}

  // A new variable "<variable>/<name>" of optimizer state, f32 zeros of
  // `shape`.
  Tensor State(absl::string_view name, const Shape& shape);
  // Gives `state` a value of its dimensions for the next step.
  void SetState(Tensor state, Tensor value);

  const VariableInfo& variable;
  const Tensor value;
  const Tensor gradient;
  const Tensor commit;
  std::vector<Tensor> assignments;
};

// Returns the new value of a parameter, in f32 and of its dimensions; Assign()
// refuses others with kInvalidArgument.
using UpdateRule = std::function<Tensor(ParameterUpdate&)>;
// Makes the rule of a step from what all parameters share, scalars f32: the
// number of updates made before this one, and the learning rate.
using MakeUpdateRule =
    std::function<UpdateRule(Tensor step, Tensor learning_rate)>;

struct OptimizerSpec {
  std::string name;
  Schedule learning_rate;
  double max_gradient_norm;
  MakeUpdateRule make_rule;
  absl::Status options;  // what is wrong with the others
  LossScaleOptions loss_scale = {};
};

// Minimize() and Apply() of every optimizer. See nn/optimizers/adam.h, also for
// errors.
Tensor Minimize(const OptimizerSpec& spec, Tensor loss,
                std::source_location location);
Tensor Apply(const OptimizerSpec& spec, std::vector<Tensor> gradients,
             std::vector<Tensor> variables, std::source_location location);

}  // namespace mtf::nn::internal

#endif  // NN_OPTIMIZERS_OPTIMIZER_H_
