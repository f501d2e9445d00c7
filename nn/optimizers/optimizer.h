// SPDX-License-Identifier: Apache-2.0
#ifndef NN_OPTIMIZERS_OPTIMIZER_H_
#define NN_OPTIMIZERS_OPTIMIZER_H_

#include <cstdint>
#include <functional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/optimizers/loss_scale.h"
#include "nn/optimizers/parameter_groups.h"
#include "nn/optimizers/schedules.h"
#include "ops/track_average.h"

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
  // The weight decay of its group, or of the optimizer.
  const double weight_decay;

  // Creates a variable "<optimizer>/<parameter>/<name>" of optimizer state with
  // `shape`, initially 0, and returns its value at the beginning of the step.
  // The layout shards it by the rules of [optimizer].
  //
  //   Tensor m = p.State("m", p.variable.shape);
  //
  // Errors are those of Variable().
  Tensor State(absl::string_view name, const Shape& shape);

  // Assigns `value`, which has the dimensions of `state`, to the result of
  // State() for the next step. In a step that does not update, because loss
  // scaling skips it or gradients are accumulated, the state keeps its value.
  // Errors are those of Assign().
  void SetState(Tensor state, Tensor value);

 private:
  friend class Optimizer;
  ParameterUpdate(const VariableInfo& variable, Tensor value, Tensor gradient,
                  double weight_decay, Tensor commit)
      : variable(variable),
        value(value),
        gradient(gradient),
        weight_decay(weight_decay),
        commit_(commit) {}

  Tensor commit_;  // if not empty, a scalar bool: whether the step updates
  std::vector<Tensor> assignments_;
};

// Returns the new value of a parameter, f32 with its dimensions.
using UpdateRule = std::function<Tensor(ParameterUpdate& p)>;

// Creates the rule of a step from what parameters share, as f32 scalars:
// `step`, the number of earlier updates, and the learning rate. Computations on
// these alone belong here, where they happen once: once for the optimizer, and
// once for each group with a learning rate of its own.
using MakeUpdateRule =
    std::function<UpdateRule(Tensor step, Tensor learning_rate)>;

struct OptimizerOptions {
  Schedule learning_rate = 1e-3;
  MakeUpdateRule make_rule = nullptr;  // required
  // ParameterUpdate::weight_decay where no group sets it.
  double weight_decay = 0;
  std::vector<ParameterGroup> groups = {};
  // Names that the rule treats in another way: patterns of parameters, for
  // MatchesAny, and dimensions. It is an error if no parameter has one of them.
  std::vector<std::string> patterns = {};
  std::vector<std::string> dimensions = {};
  double max_gradient_norm = 0;  // 0: no clipping; see ClipByGlobalNorm
  // Every accumulate_steps-th step updates, by the mean of the gradients since
  // the last update. The other steps only add their gradients, in the f32 state
  // "<name>/<variable>/gradient_sum". Clipping sees the mean, and schedules and
  // moments count updates.
  int64_t accumulate_steps = 1;
  // Unless 0, the optimizer keeps moving averages of the parameters, which an
  // AverageScope reads, in the f32 state "<name>/<variable>/average". They
  // begin with the initial values; each update sets
  //
  //   average <- average_decay * average + (1 - average_decay) * parameter
  double average_decay = 0;
  LossScaleOptions loss_scale = {};  // for f16
  // A step of which some gradient has an element that is not finite changes no
  // variable, as loss scaling does for f16. The test reads all gradients once.
  bool skip_non_finite = false;
  // Not OK: the error in options of the author's own, which the graph records.
  absl::Status status = absl::OkStatus();
  std::string name = "optimizer";
};

struct MinimizeOptions {
  // A pattern of the parameters to update (mtf/scope_pattern.h), such as
  // "**/adapter". Empty: all of them.
  std::string only = "";
};

// An optimizer by its update rule. Everything else is common to all optimizers:
// gradients, groups of parameters, clipping, loss scaling, accumulation, master
// copies, moving averages and the learning rate.
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
// If a parameter has a narrower dtype than its initial value (mtf/precision.h),
// its master copy "<name>/<variable>/master", which all optimizers share, is
// part of the state: the update changes the master copy, and the parameter is
// the rounded master copy. The counter "<name>/step" is the number of updates.
//
// The step of Minimize also moves the averages that the loss tracks
// (ops/track_average.h), such as those of batch normalization; that of Apply,
// which does not know a loss, does not.
class Optimizer {
 public:
  explicit Optimizer(OptimizerOptions options) : options_(std::move(options)) {}

  // Updates every trainable float parameter that matches `.only`, is not
  // frozen, and on which the scalar `loss` depends. Returns a scalar; a step
  // that fetches it performs the update. If `loss` depends on f16 values, it is
  // scaled (nn/optimizers/loss_scale.h).
  //
  //   Tensor step = nn::AdamW().Minimize(loss, {.only = "**/adapter"});
  //
  // Records kInvalidArgument in the graph if `loss` is not a float scalar or
  // depends on no such parameter; the learning rate schedule has an error or
  // does not return an f32 scalar; a pattern matches no parameter of the graph;
  // an option is outside of its range or not finite in f32; make_rule is
  // missing or returns no rule; a rule returns a tensor that is empty, is not
  // f32 or does not have the dimensions of the parameter; or Scope rejects the
  // name. Records kAlreadyExists if a parameter has a moving average already.
  // Returns an empty Tensor if `loss` is empty.
  Tensor Minimize(
      Tensor loss, MinimizeOptions options = {},
      std::source_location location = std::source_location::current()) const;

  // Updates `variables`, which are results of Variable(), by one gradient each.
  // A gradient has the dimensions of its variable in any order; a variable with
  // an empty gradient and a frozen one do not change. Gradients are not
  // unscaled. Returns a scalar, as Minimize does.
  //
  //   Tensor step = optimizer.Apply(Gradients(loss, {w1, w2}), {w1, w2});
  //
  // Records kInvalidArgument in the graph if the lists differ in length; an
  // element of `variables` is not a float variable or occurs twice; a gradient
  // is not a float, has other dimensions or belongs to another graph; no
  // gradient is left; or for an option, as above; a pattern must match one of
  // `variables`. Returns an empty Tensor if all tensors are empty.
  Tensor Apply(
      std::vector<Tensor> gradients, std::vector<Tensor> variables,
      std::source_location location = std::source_location::current()) const;

 private:
  Tensor Update(Graph& graph, std::vector<Tensor> gradients,
                const std::vector<Tensor>& variables,
                const internal::LossScale& loss_scale,
                const std::vector<AverageUpdate>& averages,
                std::source_location location) const;
  bool IsFrozen(Tensor variable) const;
  absl::StatusOr<std::vector<Tensor>> ParametersOf(
      const Graph& graph, absl::string_view only) const;
  absl::StatusOr<std::vector<UpdateRule>> MakeRules(Tensor step) const;
  absl::Status AddUpdates(const std::vector<UpdateRule>& rules, Tensor commit,
                          const std::vector<Tensor>& gradients,
                          const std::vector<Tensor>& variables,
                          std::vector<Tensor>& assignments) const;

  OptimizerOptions options_;
};

}  // namespace mtf::nn

#endif  // NN_OPTIMIZERS_OPTIMIZER_H_
