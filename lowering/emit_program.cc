// SPDX-License-Identifier: Apache-2.0
#include "lowering/emit_program.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "lowering/recorder.h"
#include "mtf/check.h"

namespace mtf {
namespace {

// Marks the operations that `roots` depend on, by id.
std::vector<bool> Ancestors(const Graph& graph,
                            const std::vector<Tensor>& roots) {
  std::vector<bool> needed(graph.operations().size(), false);
  for (const Tensor& root : roots) needed[root.operation()->id()] = true;
  for (int id = static_cast<int>(needed.size()) - 1; id >= 0; --id) {
    if (!needed[id]) continue;
    for (const Tensor& input : graph.operations()[id]->inputs()) {
      needed[input.operation()->id()] = true;
    }
  }
  return needed;
}

}  // namespace

std::vector<std::string> DimensionNames(const Graph& graph) {
  std::vector<std::string> names;
  absl::flat_hash_set<std::string> seen;
  for (const auto& operation : graph.operations()) {
    for (const Dimension& dim : operation->shape()) {
      if (seen.insert(dim.name).second) names.push_back(dim.name);
    }
  }
  return names;
}

absl::StatusOr<Program> EmitProgram(const Graph& graph,
                                    const LayoutBinding& binding,
                                    const Targets& targets) {
  MTF_RETURN_IF_ERROR(graph.status());
  MTF_RETURN_IF_ERROR(graph.CheckTensors(targets.fetches, "fetch"));
  MTF_RETURN_IF_ERROR(graph.CheckTensors(targets.updates, "update"));

  std::vector<Tensor> roots = targets.fetches;
  roots.insert(roots.end(), targets.updates.begin(), targets.updates.end());
  if (targets.initialize) {
    for (const VariableInfo& variable : graph.variables()) {
      roots.push_back(variable.initial_value);
    }
  }
  const std::vector<bool> needed = Ancestors(graph, roots);

  Program program;
  program.mesh = binding.mesh;
  program.grains = binding.grains;
  program.values.reserve(graph.operations().size() * 2);
  program.instructions.reserve(graph.operations().size() * 2);
  Recorder recorder(binding, program);
  std::vector<Value> values(graph.operations().size());
  std::vector<Value> inputs;
  for (const auto& operation : graph.operations()) {
    if (!needed[operation->id()]) continue;
    inputs.clear();
    for (const Tensor& input : operation->inputs()) {
      inputs.push_back(values[input.operation()->id()]);
    }
    recorder.Begin(*operation);
    values[operation->id()] = operation->Emit(recorder, inputs);
    MTF_RETURN_IF_ERROR(recorder.status());
  }
  if (targets.initialize) {
    for (const VariableInfo& variable : graph.variables()) {
      recorder.BeginFetch(*variable.read.operation());
      recorder.WriteVariable(variable,
                             values[variable.initial_value.operation()->id()]);
      MTF_RETURN_IF_ERROR(recorder.status());
    }
  }
  for (const Tensor& fetch : targets.fetches) {
    recorder.BeginFetch(*fetch.operation());
    recorder.Output(values[fetch.operation()->id()], fetch.name(),
                    targets.fetch_shards);
    MTF_RETURN_IF_ERROR(recorder.status());
  }
  return program;
}

}  // namespace mtf
