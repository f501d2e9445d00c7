// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/optimizer_checks.h"

#include <cstddef>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/status.h"
#include "nn/layers/layer.h"
#include "nn/layers/pattern_check.h"
#include "ops/checks.h"

namespace mtf::nn::internal {

absl::Status CheckGradients(const Graph& graph,
                            const std::vector<Tensor>& gradients,
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
    MTF_RETURN_IF_ERROR(CheckFloat(gradients[i], "an update"));
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
  MTF_RETURN_IF_ERROR(CheckGroups(options.groups));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckNotNegative(".weight_decay", options.weight_decay));
  MTF_RETURN_IF_ERROR(
      mtf::internal::CheckBelowOne(".average_decay", options.average_decay));
  if (options.accumulate_steps < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        ".accumulate_steps is ", options.accumulate_steps, ", less than 1"));
  }
  return mtf::internal::CheckNotNegative(".max_gradient_norm",
                                         options.max_gradient_norm);
}

absl::Status CheckNames(const OptimizerOptions& options,
                        const std::vector<Tensor>& variables,
                        absl::string_view only) {
  if (variables.empty()) return absl::OkStatus();
  std::vector<std::string> names, dimensions;
  for (const Tensor& variable : variables) {
    names.push_back(variable.graph().FindVariable(variable)->name);
    for (const Dimension& dim : variable.shape()) {
      dimensions.push_back(dim.name);
    }
  }
  if (!only.empty()) {
    MTF_RETURN_IF_ERROR(CheckMatches(".only", only, names));
  }
  for (const ParameterGroup& group : options.groups) {
    MTF_RETURN_IF_ERROR(CheckMatches(".groups", group.parameters, names));
  }
  for (const std::string& pattern : options.patterns) {
    MTF_RETURN_IF_ERROR(CheckMatches("the optimizer", pattern, names));
  }
  for (const std::string& dimension : options.dimensions) {
    if (absl::c_linear_search(dimensions, dimension)) continue;
    const std::string nearest = NearestName(dimension, dimensions);
    return absl::InvalidArgumentError(absl::StrCat(
        "no parameter has the dimension \"", dimension, "\"",
        nearest.empty() ? ""
                        : absl::StrCat("; did you mean \"", nearest, "\"?")));
  }
  return absl::OkStatus();
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

}  // namespace mtf::nn::internal
