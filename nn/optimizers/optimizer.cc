// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/optimizer.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/scope_pattern.h"
#include "mtf/status.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/optimizers/accumulate.h"
#include "nn/optimizers/clip.h"
#include "nn/optimizers/optimizer_checks.h"
#include "nn/optimizers/state.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/variable.h"

namespace mtf::nn {
namespace {

using internal::AssignIf;
using internal::kState;
using internal::LossScale;
using internal::To;

// The master copy of a parameter that is rounded from one, created if no
// optimizer has created it; otherwise the parameter itself.
Tensor MasterOf(Graph& graph, const VariableInfo& info) {
  if (!info.master_value.valid()) return info.read;
  if (info.master >= 0) return graph.variables()[info.master].read;
  VariableOptions options = kState;
  options.master_of = info.read;
  const Scope scope(graph, info.name);
  return Variable(graph, "master", info.master_value, options);
}

// Creates the moving average of a parameter, with its initial value.
absl::StatusOr<Tensor> AverageOf(Graph& graph, const VariableInfo& info) {
  if (info.average >= 0) {
    return absl::AlreadyExistsError(absl::StrCat(
        "parameter \"", info.name, "\" already has the moving average \"",
        graph.variables()[info.average].name,
        "\"\n  help     set .average_decay of one optimizer only"));
  }
  const Tensor initial =
      info.master_value.valid() ? info.master_value : info.initial_value;
  const Scope scope(graph, info.name);
  const Tensor average =
      Variable(graph, "average", To(kFloat32, initial), kState);
  if (graph.FindVariable(average) != nullptr) {  // it is after an error
    graph.SetAverage(info.read, average);
  }
  return average;
}

}  // namespace

Tensor ParameterUpdate::State(absl::string_view name, const Shape& shape) {
  Graph& graph = value.graph();
  const Tensor zeros = Zeros(graph, kFloat32, shape);
  // A scope, as those of the parameter: Variable() would reject some names.
  const Scope scope(graph, variable.name);
  return Variable(graph, name, zeros, kState);
}

void ParameterUpdate::SetState(Tensor state, Tensor value) {
  assignments_.push_back(AssignIf(commit_, state, value));
}

// The rule of the optimizer, then those of the groups with learning rates of
// their own; null for the other groups.
absl::StatusOr<std::vector<UpdateRule>> Optimizer::MakeRules(
    Tensor step) const {
  std::vector<const Schedule*> rates = {&options_.learning_rate};
  for (const ParameterGroup& group : options_.groups) {
    rates.push_back(group.learning_rate ? &*group.learning_rate : nullptr);
  }
  std::vector<UpdateRule> rules;
  for (const Schedule* schedule : rates) {
    rules.emplace_back();
    if (schedule == nullptr) continue;
    const Tensor rate = schedule->At(step);
    MTF_RETURN_IF_ERROR(internal::CheckRate(rate));
    rules.back() = options_.make_rule(step, rate);
    if (rules.back() == nullptr)
      return internal::MissingRule("the result of .make_rule");
  }
  return rules;
}

// Appends the assignments of one step to all `variables` with a gradient.
absl::Status Optimizer::AddUpdates(const std::vector<UpdateRule>& rules,
                                   Tensor commit,
                                   const std::vector<Tensor>& gradients,
                                   const std::vector<Tensor>& variables,
                                   std::vector<Tensor>& assignments) const {
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!gradients[i].valid()) continue;
    // Cast each gradient just before its use, so that not all f32 gradients are
    // alive at once.
    Graph& graph = variables[i].graph();
    const VariableInfo& info = *graph.FindVariable(variables[i]);
    const internal::ParameterSettings settings =
        internal::SettingsOf(options_.groups, info.name);
    const RulesScope scope_rules(info.read);
    const Tensor master = MasterOf(graph, info);
    ParameterUpdate update(
        info, To(kFloat32, master), To(kFloat32, gradients[i]),
        settings.weight_decay.value_or(options_.weight_decay), commit);
    Tensor value = rules[settings.rate_group + 1](update);
    MTF_RETURN_IF_ERROR(internal::CheckResult(update, value));
    if (options_.average_decay != 0) {
      MTF_ASSIGN_OR_RETURN(const Tensor average, AverageOf(graph, info));
      update.SetState(average, options_.average_decay * average +
                                   (1.0 - options_.average_decay) * value);
    }
    if (commit.valid()) value = Select(commit, value, update.value);
    // The parameter is the rounded master copy, on every device.
    if (!SameTensor(master, info.read))
      assignments.push_back(Assign(master, value));
    assignments.push_back(Assign(info.read, To(info.dtype, value)));
    assignments.insert(assignments.end(), update.assignments_.begin(),
                       update.assignments_.end());
  }
  return absl::OkStatus();
}

// Apply() in the scope of the optimizer, which also updates `averages`. If
// `loss_scale` has a scale, `gradients` are those of the scaled loss.
Tensor Optimizer::Update(Graph& graph, std::vector<Tensor> gradients,
                         const std::vector<Tensor>& variables,
                         const LossScale& loss_scale,
                         const std::vector<AverageUpdate>& averages,
                         std::source_location location) const {
  const auto fail = [&](const absl::Status& status) {
    return graph.Fail(status, options_.name, location);
  };
  // The operations from here on are the update, in the section [optimizer].
  SectionScope section(graph, LayoutSection::kOptimizer);
  absl::Status status = internal::CheckOptions(options_);
  if (!status.ok()) return fail(status);

  std::vector<Tensor> assignments;
  Tensor commit;  // if not empty, a scalar bool: whether this step updates
  if (loss_scale.scale.valid()) {
    gradients = loss_scale.Unscale(std::move(gradients));
    commit = internal::AllFinite(gradients);
    assignments = loss_scale.Update(commit, options_.loss_scale);
  } else if (options_.skip_non_finite) {
    std::vector<Tensor> wide = gradients;
    for (Tensor& gradient : wide) {
      if (gradient.valid()) gradient = To(kFloat32, gradient);
    }
    commit = internal::AllFinite(wide);
  }
  // Each finite step has a batch of its own, also if gradients are accumulated.
  for (const AverageUpdate& each : averages) {
    assignments.push_back(AssignIf(commit, each.average, each.next));
  }
  if (options_.accumulate_steps > 1) {
    internal::Accumulated accumulated = internal::Accumulate(
        options_.accumulate_steps, gradients, variables, commit);
    gradients = std::move(accumulated.gradients);
    commit = accumulated.commit;
    assignments.insert(assignments.end(), accumulated.assignments.begin(),
                       accumulated.assignments.end());
  }
  if (options_.max_gradient_norm != 0) {
    for (Tensor& gradient : gradients) {
      if (gradient.valid()) gradient = To(kFloat32, gradient);
    }
    gradients =
        ClipByGlobalNorm(std::move(gradients), options_.max_gradient_norm)
            .gradients;
  }

  const Tensor count =
      Variable(graph, "step", Zeros(graph, kInt32, {}), kState);
  const Tensor step = Cast(count, kFloat32);
  const absl::StatusOr<std::vector<UpdateRule>> rules = MakeRules(step);
  if (!rules.ok()) return fail(rules.status());

  assignments.push_back(AssignIf(commit, count, count + 1.0));
  status = AddUpdates(*rules, commit, gradients, variables, assignments);
  if (!status.ok()) return fail(status);
  return Group(graph, std::move(assignments));
}

Tensor Optimizer::Apply(std::vector<Tensor> gradients,
                        std::vector<Tensor> variables,
                        std::source_location location) const {
  Graph* graph = mtf::internal::GraphOf(variables);
  if (graph == nullptr) graph = mtf::internal::GraphOf(gradients);
  if (graph == nullptr) return {};
  LayerScope layer(*graph, options_.name, location);
  absl::Status status = internal::CheckGradients(*graph, gradients, variables);
  if (status.ok()) status = internal::CheckNames(options_, variables);
  if (!status.ok()) return graph->Fail(status, options_.name, location);
  bool any = false;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (IsFrozen(variables[i])) gradients[i] = Tensor();
    any = any || gradients[i].valid();
  }
  if (!any) {
    return graph->Fail(
        absl::InvalidArgumentError("nothing to update: there is no gradient "
                                   "for any variable that is not frozen"),
        options_.name, location);
  }
  return Update(*graph, std::move(gradients), variables, {}, {}, location);
}

bool Optimizer::IsFrozen(Tensor variable) const {
  const VariableInfo& info = *variable.graph().FindVariable(variable);
  return internal::SettingsOf(options_.groups, info.name).frozen;
}

// The trainable float parameters that Minimize() updates.
absl::StatusOr<std::vector<Tensor>> Optimizer::ParametersOf(
    const Graph& graph, absl::string_view only) const {
  std::vector<Tensor> trainable, parameters;
  for (const VariableInfo& variable : graph.variables()) {
    if (variable.trainable && variable.kind == VariableKind::kParameter &&
        IsFloat(variable.dtype)) {
      trainable.push_back(variable.read);
    }
  }
  MTF_RETURN_IF_ERROR(internal::CheckNames(options_, trainable, only));
  for (const Tensor& parameter : trainable) {
    if (!IsFrozen(parameter) &&
        ScopeMatches(only, graph.FindVariable(parameter)->name)) {
      parameters.push_back(parameter);
    }
  }
  if (parameters.empty() && !trainable.empty()) {
    return absl::InvalidArgumentError(
        "nothing to update: all parameters that match .only are frozen");
  }
  return parameters;
}

Tensor Optimizer::Minimize(Tensor loss, MinimizeOptions options,
                           std::source_location location) const {
  if (!loss.valid()) return {};
  Graph& graph = loss.graph();
  CallSiteScope site(graph, location);
  const auto fail = [&](const absl::Status& status) {
    return graph.Fail(status, options_.name, location);
  };
  if (loss.shape().rank() != 0 || !IsFloat(loss.dtype())) {
    return fail(absl::InvalidArgumentError(absl::StrCat(
        "the loss \"", loss.name(), "\" is not a float scalar",
        DescribeInputs({loss}), "\n  help     ReduceMean(loss, {})")));
  }
  const absl::StatusOr<std::vector<Tensor>> parameters =
      ParametersOf(graph, options.only);
  if (!parameters.ok()) return fail(parameters.status());
  LayerScope layer(graph, options_.name, location);
  LossScale loss_scale;
  if (internal::NeedsLossScale(loss)) {
    const absl::Status status = internal::CheckLossScale(options_.loss_scale);
    if (!status.ok()) return fail(status);
    loss_scale = LossScale::Make(graph, options_.loss_scale);
    loss = To(kFloat32, loss);
  }
  const std::vector<Tensor> all =
      Gradients(loss, *parameters, loss_scale.scale);
  std::vector<Tensor> gradients, variables;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].valid()) continue;
    gradients.push_back(all[i]);
    variables.push_back((*parameters)[i]);
  }
  if (variables.empty()) {
    // After an earlier error the loss may not depend on parameters; the graph
    // keeps the first error.
    return fail(absl::InvalidArgumentError(absl::StrCat(
        "the loss \"", loss.name(), "\" depends on no trainable parameter",
        options_.groups.empty() && options.only.empty()
            ? ""
            : " that is to be updated")));
  }
  return Update(graph, std::move(gradients), variables, loss_scale,
                AverageUpdates(loss), location);
}

}  // namespace mtf::nn
