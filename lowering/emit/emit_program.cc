// SPDX-License-Identifier: Apache-2.0
#include "lowering/emit/emit_program.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "lowering/emit/early_checks.h"
#include "lowering/emit/needed_operations.h"
#include "lowering/emit/recorder.h"
#include "mtf/check.h"
#include "mtf/errors.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// The ids of the operations that `roots` depend on, up to the first for which
// `stop` returns true.
std::vector<int> FindDependencies(
    const Graph& graph, const std::vector<Tensor>& roots,
    absl::FunctionRef<bool(const Operation&)> stop) {
  std::vector<int> visited;
  absl::flat_hash_set<int> seen;
  const auto visit = [&](const Tensor& tensor) {
    const int id = tensor.operation()->id();
    if (seen.insert(id).second) visited.push_back(id);
  };
  for (const Tensor& root : roots) visit(root);
  for (size_t i = 0; i < visited.size(); ++i) {
    const Operation& operation = *graph.operations()[visited[i]];
    if (stop(operation)) break;
    for (const Tensor& input : operation.inputs()) visit(input);
  }
  return visited;
}

// Whether `update` or what it depends on assigns a variable. Stops at the first
// assignment: most updates are one, and depend on the whole gradient.
bool AssignsVariable(const Graph& graph, const Tensor& update) {
  bool assigns = false;
  FindDependencies(graph, {update}, [&assigns](const Operation& operation) {
    assigns = operation.AssignedVariable() != nullptr;
    return assigns;
  });
  return assigns;
}

// What the observations of operations that `roots` depend on show.
std::vector<Tensor> FindObserved(const Graph& graph,
                                 const std::vector<Tensor>& roots) {
  if (graph.observations().empty()) return {};
  const std::vector<int> dependencies =
      FindDependencies(graph, roots, [](const Operation&) { return false; });
  const absl::flat_hash_set<int> computed(dependencies.begin(),
                                          dependencies.end());
  std::vector<Tensor> observed;
  for (const Observation& observation : graph.observations()) {
    if (computed.contains(observation.of.operation()->id())) {
      observed.push_back(observation.shown);
    }
  }
  return observed;
}

// Checks that each update depends on an Assign.
absl::Status CheckUpdates(const Graph& graph,
                          const std::vector<Tensor>& updates) {
  for (size_t i = 0; i < updates.size(); ++i) {
    if (AssignsVariable(graph, updates[i])) continue;
    const Operation& operation = *updates[i].operation();
    return absl::InvalidArgumentError(absl::StrCat(
        "update ", i, ", \"", operation.name(), "\", sets no variable (",
        operation.kind(), ", ", operation.call_site().ToString(), ")",
        DescribeInputs({updates[i]}),
        "\n  help     pass what Assign() or an optimizer returns, or a Group() "
        "of such; a tensor to read is a fetch"));
  }
  return absl::OkStatus();
}

using VariableIds = absl::flat_hash_set<int>;

// The initial values of all variables but `set_by_caller`.
std::vector<Tensor> InitialValues(const Graph& graph,
                                  const VariableIds& set_by_caller) {
  std::vector<Tensor> values;
  for (const VariableInfo& variable : graph.variables()) {
    if (set_by_caller.contains(variable.id)) continue;
    values.push_back(variable.initial_value);
  }
  return values;
}

absl::Status WriteInitialValues(const Graph& graph,
                                const VariableIds& set_by_caller,
                                const NeededOperations& needed,
                                Recorder& recorder) {
  for (const VariableInfo& variable : graph.variables()) {
    recorder.BeginFetch(*variable.read.operation());
    if (set_by_caller.contains(variable.id)) {
      recorder.AddVariable(variable);
    } else {
      recorder.WriteVariable(variable, needed.ValueOf(variable.initial_value));
    }
    MTF_RETURN_IF_ERROR(recorder.status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> EmitProgram(const Graph& graph,
                                    const LayoutBinding& binding,
                                    const Targets& targets,
                                    const EmitOptions& options) {
  MTF_RETURN_IF_ERROR(graph.status());
  MTF_RETURN_IF_ERROR(graph.CheckTensors(targets.fetches, "fetch"));
  MTF_RETURN_IF_ERROR(graph.CheckTensors(targets.updates, "update"));
  MTF_RETURN_IF_ERROR(CheckUpdates(graph, targets.updates));
  if (binding.rules.num_scopes() > 0 &&
      binding.rules.num_scopes() < static_cast<int>(graph.scopes().size())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "scope \"", graph.scopes()[binding.rules.num_scopes()],
        "\" was opened after the layout was bound to the graph\n  help     "
        "build the whole graph before the session"));
  }

  std::vector<Tensor> roots = targets.fetches;
  roots.insert(roots.end(), targets.updates.begin(), targets.updates.end());
  std::vector<Tensor> observed;
  const VariableIds set_by_caller(targets.set_by_caller.begin(),
                                  targets.set_by_caller.end());
  if (targets.initialize) {
    roots = InitialValues(graph, set_by_caller);
  } else {
    observed = FindObserved(graph, roots);
    roots.insert(roots.end(), observed.begin(), observed.end());
  }
  Program program;
  program.mesh = binding.mesh;
  program.grains = binding.grains;
  Recorder recorder(binding, options.attention, program);
  const auto check = [&recorder](const Operation& operation,
                                 uint32_t read_results) {
    recorder.UseRulesOf(operation, operation);
    return operation.CheckEmit(recorder, read_results);
  };
  NeededOperations needed(graph, roots, options.representatives, check);
  if (options.attention != AttentionSupport::kNone) {
    for (const NeededOperations::Replaced& replaced : needed.replaced()) {
      program.composed_attention.push_back(
          {{replaced.operation->name(), replaced.operation->call_site()},
           replaced.why});
    }
  }
  const size_t count = needed.items().size();
  program.values.reserve(count * 2);
  program.instructions.reserve(count * 2);
  program.origins.reserve(count + targets.fetches.size());
  std::vector<Value> inputs;
  for (const NeededOperations::Item& item : needed.items()) {
    inputs.clear();
    for (const Tensor& input : item.operation->inputs()) {
      inputs.push_back(needed.ValueOf(input));
    }
    recorder.Begin(*item.operation, *graph.operations()[item.outer],
                   item.read_results);
    needed.SetValues(item, item.operation->Emit(recorder, inputs));
    MTF_RETURN_IF_ERROR(recorder.status());
  }
  if (targets.initialize) {
    MTF_RETURN_IF_ERROR(
        WriteInitialValues(graph, set_by_caller, needed, recorder));
  }
  absl::flat_hash_set<int> fetched;
  const auto output = [&](const Tensor& tensor, bool as_shards) {
    if (!fetched.insert(tensor.id()).second) return absl::OkStatus();
    recorder.BeginFetch(*tensor.operation());
    recorder.Output(needed.ValueOf(tensor), tensor.name(), as_shards);
    return recorder.status();
  };
  for (const Tensor& fetch : targets.fetches) {
    MTF_RETURN_IF_ERROR(output(fetch, targets.fetch_shards));
  }
  for (const Tensor& tensor : observed) {
    MTF_RETURN_IF_ERROR(output(tensor, /*as_shards=*/false));
  }
  MoveChecksForward(program);
  return program;
}

}  // namespace mtf
