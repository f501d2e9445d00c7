// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_OPTIMIZER_H_
#define NN_OPTIMIZERS_OPTIMIZER_H_

#include <functional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/schedules.h"

namespace mtf::nn {

// The update of one parameter in one step, as an UpdateRule sees it. All
// tensors are f32, whatever the precision of the model.
class ParameterUpdate {
 public:
  // The parameter: its name, shape and dtype.
  const VariableInfo& variable;
  // Its value at the beginning of the step; that of the master copy if it has
  // one.
  const Tensor value;
  // Its gradient, without the loss scale and clipped, with the dimensions of
  // the parameter in any order.
  const Tensor gradient;

  // Creates a variable "<optimizer>/<parameter>/<name>" of optimizer state with
  // `shape`, initially 0, and returns its value at the beginning of the step.
  // The layout shards it by the rules of [optimizer].
  //
  //   Tensor m = p.State("m", p.variable.shape);
  //
  // Errors are those of Variable().
  Tensor State(absl::string_view name, const Shape& shape);

  // Assigns `value`, which has the dimensions of `state`, to the result of
  // State() for the next step. In a step that loss scaling skips, the state
  // keeps its value. Errors are those of Assign().
  void SetState(Tensor state, Tensor value);

 private:
  friend class Optimizer;
  ParameterUpdate(const VariableInfo& variable, Tensor value, Tensor gradient,
                  Tensor commit)
      : variable(variable), value(value), gradient(gradient), commit_(commit) {}

  Tensor commit_;  // if not empty, a scalar bool: whether the step counts
  std::vector<Tensor> assignments_;
};

// Returns the new value of a parameter, f32 with its dimensions.
using UpdateRule = std::function<Tensor(ParameterUpdate& p)>;

// Creates the rule of a step from what all parameters share, as f32 scalars:
// `step`, the number of earlier updates, and the learning rate. Computations on
// these alone belong here, where they happen once.
using MakeUpdateRule =
    std::function<UpdateRule(Tensor step, Tensor learning_rate)>;

struct OptimizerOptions {
  Schedule learning_rate = 1e-3;
  MakeUpdateRule make_rule = nullptr;  // required
  double max_gradient_norm = 0;        // 0: no clipping; see ClipByGlobalNorm
  LossScaleOptions loss_scale = {};    // for f16
  // Not OK: the error in options of the author's own, which the graph records.
  absl::Status status = absl::OkStatus();
  std::string name = "optimizer";
};

// An optimizer by its update rule. Everything else is common to all optimizers:
// gradients, clipping, loss scaling, master copies and the learning rate.
//
//   // parameter <- parameter - learning_rate * sign(gradient)
//   nn::Optimizer SignSgd(nn::Schedule learning_rate) {
//     return nn::Optimizer({.learning_rate = learning_rate,
//                           .make_rule = [](Tensor, Tensor rate) {
//                             return [rate](nn::ParameterUpdate& p) {
//                               return p.value - rate * Sign(p.gradient);
//                             };
//                           },
//                           .name = "sign_sgd"});
//   }
//
//   Tensor step = SignSgd(1e-3).Minimize(loss);
//
// docs/writing_layers.md shows one with state. Rules consist of operations, so
// they run under every layout; the operations belong to [optimizer].
//
// Minimize and Apply are as in nn/optimizers/adam.h, with the same errors. They
// also record kInvalidArgument in the graph if make_rule is missing or returns
// no rule, and if a rule returns a tensor that is empty, is not f32 or does not
// have the dimensions of the parameter.
class Optimizer {
 public:
  explicit Optimizer(OptimizerOptions options) : options_(std::move(options)) {}

  Tensor Minimize(Tensor loss, std::source_location location =
                                   std::source_location::current()) const;
  Tensor Apply(
      std::vector<Tensor> gradients, std::vector<Tensor> variables,
      std::source_location location = std::source_location::current()) const;

 private:
  Tensor Update(Graph& graph, std::vector<Tensor> gradients,
                const std::vector<Tensor>& variables,
                const internal::LossScale& loss_scale,
                std::source_location location) const;
  absl::Status AddUpdates(const UpdateRule& rule, Tensor commit,
                          const std::vector<Tensor>& gradients,
                          const std::vector<Tensor>& variables,
                          std::vector<Tensor>& assignments) const;

  OptimizerOptions options_;
};

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_OPTIMIZER_H_
