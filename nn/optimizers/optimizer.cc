// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/optimizer.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "nn/layers/layer.h"
#include "nn/layers/layer_scope.h"
#include "nn/optimizers/clip.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/variable.h"

namespace mtf::nn {
namespace {

using internal::LossScale;
using internal::To;

constexpr VariableOptions kState = {.kind = VariableKind::kOptimizerState,
                                    .trainable = false};

// Checks that each non-empty gradient belongs to a float variable of its shape
// and that no variable occurs twice.
absl::Status Check(const Graph& graph, const std::vector<Tensor>& gradients,
                   const std::vector<Tensor>& variables) {
  if (gradients.size() != variables.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        gradients.size(), " gradients for ", variables.size(), " variables"));
  }
  MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(graph, variables));
  absl::flat_hash_set<const VariableInfo*> seen;
  bool any = false;
  for (size_t i = 0; i < variables.size(); ++i) {
    const VariableInfo* info = graph.FindVariable(variables[i]);
    if (info == nullptr || !IsFloat(info->dtype)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", variables[i].name(), "\" is not a float variable",
                       DescribeInputs({variables[i]}),
                       "\n  help     pass what Variable() returned, or "
                       "VariableInfo::read of graph.variables(): a layer "
                       "returns a parameter cast to the dtype of its use"));
    }
    if (!seen.insert(info).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable \"", info->name, "\" is listed twice"));
    }
    if (!gradients[i].valid()) continue;
    any = true;
    MTF_RETURN_IF_ERROR(mtf::internal::CheckInputs(graph, {gradients[i]}));
    MTF_RETURN_IF_ERROR(internal::CheckFloat(gradients[i], "an update"));
    if (!gradients[i].shape().SameDimensions(info->shape)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the gradient \"", gradients[i].name(),
          "\" does not have the shape of ", "variable \"", info->name, "\"",
          DescribeInputs({gradients[i], variables[i]})));
    }
  }
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "nothing to update: there is no gradient for any variable");
}

absl::Status MissingRule(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      what, " is empty: an optimizer needs a function that returns the new ",
      "value of a parameter"));
}

absl::Status CheckOptions(const OptimizerOptions& options) {
  MTF_RETURN_IF_ERROR(options.status);
  if (options.make_rule == nullptr) return MissingRule("the option .make_rule");
  return mtf::internal::CheckNotNegative(".max_gradient_norm",
                                         options.max_gradient_norm);
}

absl::Status CheckRate(Tensor rate) {
  if (!rate.valid()) {
    return absl::InvalidArgumentError(
        "the learning rate schedule returned an empty Tensor");
  }
  if (rate.shape().rank() == 0 && rate.dtype() == kFloat32) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the learning rate schedule did not return an f32 scalar",
                   DescribeInputs({rate})));
}

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

// Assigns `value` to `variable`, unless `commit` is given and false.
Tensor AssignIf(Tensor commit, Tensor variable, Tensor value) {
  if (commit.valid()) value = Select(commit, value, variable);
  return Assign(variable, value);
}

// Checks that `value`, the result of an update rule, can be assigned to the
// parameter of `update`.
absl::Status CheckResult(const ParameterUpdate& update, Tensor value) {
  const VariableInfo& info = update.variable;
  const std::string rule =
      absl::StrCat("the update rule of parameter \"", info.name, "\"");
  if (!value.valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat(rule, " returned an empty Tensor"));
  }
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckInputs(update.value.graph(), {value}));
  if (value.dtype() == kFloat32 && value.shape().SameDimensions(info.shape)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(rule, " did not return an f32 tensor [",
                   info.shape.ToString(), "]", DescribeInputs({value})));
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

// Appends the assignments of one step to all `variables` with a gradient.
absl::Status Optimizer::AddUpdates(const UpdateRule& rule, Tensor commit,
                                   const std::vector<Tensor>& gradients,
                                   const std::vector<Tensor>& variables,
                                   std::vector<Tensor>& assignments) const {
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!gradients[i].valid()) continue;
    // Cast each gradient just before its use, so that not all f32 gradients are
    // alive at once.
    Graph& graph = variables[i].graph();
    const VariableInfo& info = *graph.FindVariable(variables[i]);
    const RulesScope rules(info.read);
    const Tensor master = MasterOf(graph, info);
    ParameterUpdate update(info, To(kFloat32, master),
                           To(kFloat32, gradients[i]), commit);
    Tensor value = rule(update);
    MTF_RETURN_IF_ERROR(CheckResult(update, value));
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

// Apply() in the scope of the optimizer. If `loss_scale` has a scale,
// `gradients` are those of the scaled loss.
Tensor Optimizer::Update(Graph& graph, std::vector<Tensor> gradients,
                         const std::vector<Tensor>& variables,
                         const LossScale& loss_scale,
                         std::source_location location) const {
  const auto fail = [&](const absl::Status& status) {
    return graph.Fail(status, options_.name, location);
  };
  // The operations from here on are the update, in the section [optimizer].
  SectionScope section(graph, LayoutSection::kOptimizer);
  absl::Status status = CheckOptions(options_);
  if (status.ok()) status = Check(graph, gradients, variables);
  if (!status.ok()) return fail(status);

  std::vector<Tensor> assignments;
  Tensor commit;
  if (loss_scale.scale.valid()) {
    gradients = loss_scale.Unscale(std::move(gradients));
    commit = internal::AllFinite(gradients);
    assignments = loss_scale.Update(commit, options_.loss_scale);
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
  const Tensor rate = options_.learning_rate.At(step);
  status = CheckRate(rate);
  if (!status.ok()) return fail(status);
  const UpdateRule rule = options_.make_rule(step, rate);
  if (rule == nullptr) return fail(MissingRule("the result of .make_rule"));

  assignments.push_back(AssignIf(commit, count, count + 1.0));
  status = AddUpdates(rule, commit, gradients, variables, assignments);
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
  return Update(*graph, std::move(gradients), variables, {}, location);
}

Tensor Optimizer::Minimize(Tensor loss, std::source_location location) const {
  if (!loss.valid()) return {};
  Graph& graph = loss.graph();
  CallSiteScope site(graph, location);
  if (loss.shape().rank() != 0 || !IsFloat(loss.dtype())) {
    return graph.Fail(
        absl::InvalidArgumentError(absl::StrCat(
            "the loss \"", loss.name(), "\" is not a float scalar",
            DescribeInputs({loss}), "\n  help     ReduceMean(loss, {})")),
        options_.name, location);
  }
  std::vector<Tensor> parameters;
  for (const VariableInfo& variable : graph.variables()) {
    if (variable.trainable && variable.kind == VariableKind::kParameter &&
        IsFloat(variable.dtype)) {
      parameters.push_back(variable.read);
    }
  }
  LayerScope layer(graph, options_.name, location);
  LossScale loss_scale;
  if (internal::NeedsLossScale(loss)) {
    const absl::Status status = internal::CheckLossScale(options_.loss_scale);
    if (!status.ok()) return graph.Fail(status, options_.name, location);
    loss_scale = LossScale::Make(graph, options_.loss_scale);
    loss = To(kFloat32, loss);
  }
  const std::vector<Tensor> all = Gradients(loss, parameters, loss_scale.scale);
  std::vector<Tensor> gradients, variables;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].valid()) continue;
    gradients.push_back(all[i]);
    variables.push_back(parameters[i]);
  }
  if (variables.empty()) {
    // After an earlier error the loss may not depend on parameters; the graph
    // keeps the first error.
    return graph.Fail(absl::InvalidArgumentError(
                          absl::StrCat("the loss \"", loss.name(),
                                       "\" depends on no trainable parameter")),
                      options_.name, location);
  }
  return Update(graph, std::move(gradients), variables, loss_scale, location);
}

}  // namespace mtf::nn
