// SPDX-License-Identifier: Apache-2.0
//
// The common part of all optimizers. Not for users.
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

// The update of one parameter. Tensors are f32. `value` is the master copy of
// the parameter if it has one. If `commit` is not empty, it is a scalar bool,
// and nothing changes in steps where it is false.
class ParameterUpdate {
 public:
  ParameterUpdate(const VariableInfo& variable, Tensor value, Tensor gradient,
                  Tensor commit = Tensor())
      : variable(variable), value(value), gradient(gradient), commit(commit) {}

  // A new variable "<variable>/<name>" of optimizer state with `shape`, f32,
  // initially 0.
  Tensor State(absl::string_view name, const Shape& shape);
  // Assigns `value`, which has the dimensions of `state`, for the next step.
  void SetState(Tensor state, Tensor value);

  const VariableInfo& variable;
  const Tensor value;
  const Tensor gradient;
  const Tensor commit;
  std::vector<Tensor> assignments;
};

// Returns the new value of a parameter, in f32 and with its dimensions.
using UpdateRule = std::function<Tensor(ParameterUpdate&)>;
// Creates the rule of a step from what all parameters share, as f32 scalars:
// the number of earlier updates, and the learning rate.
using MakeUpdateRule =
    std::function<UpdateRule(Tensor step, Tensor learning_rate)>;

struct OptimizerSpec {
  std::string name;
  Schedule learning_rate;
  double max_gradient_norm;
  MakeUpdateRule make_rule;
  absl::Status options;  // OK, or the error in the optimizer's own options
  LossScaleOptions loss_scale = {};
};

// Minimize() and Apply() of every optimizer; see nn/optimizers/adam.h.
Tensor Minimize(const OptimizerSpec& spec, Tensor loss,
                std::source_location location);
Tensor Apply(const OptimizerSpec& spec, std::vector<Tensor> gradients,
             std::vector<Tensor> variables, std::source_location location);

}  // namespace mtf::nn::internal

#endif  // NN_OPTIMIZERS_OPTIMIZER_H_
