// SPDX-License-Identifier: Apache-2.0
#include "train/session/untrained_parameters.h"

#include <functional>

#include "absl/strings/str_cat.h"

namespace mtf::train {
namespace {

// Calls visit(operation) for each operation that `roots` depend on.
void VisitAncestors(const Graph& graph, const std::vector<Tensor>& roots,
                    const std::function<void(const Operation&)>& visit) {
  std::vector<bool> seen(graph.operations().size(), false);
  std::vector<const Operation*> open;
  const auto add = [&](const Tensor& tensor) {
    const Operation* operation = tensor.operation();
    if (seen[operation->id()]) return;
    seen[operation->id()] = true;
    open.push_back(operation);
  };
  for (const Tensor& root : roots) add(root);
  while (!open.empty()) {
    const Operation* operation = open.back();
    open.pop_back();
    visit(*operation);
    for (const Tensor& input : operation->inputs()) add(input);
  }
}

std::string Describe(const std::vector<const VariableInfo*>& parameters) {
  const size_t count = parameters.size();
  const VariableInfo& first = *parameters[0];
  const std::string named =
      absl::StrCat("\"", first.name, "\" (", first.call_site.ToString(), ")");
  return absl::StrCat(
      count == 1
          ? absl::StrCat("trainable parameter ", named)
          : absl::StrCat(count, " trainable parameters, such as ", named, ","),
      count == 1 ? " is read but keeps its initial value"
                 : " are read but keep their initial values",
      ": no update of the graph changes ", count == 1 ? "it" : "them",
      " and nothing has loaded ", count == 1 ? "it" : "them",
      "; frozen parameters need values of a trained model (mtf train: "
      "--init_from), and a network that is built twice has two sets of "
      "parameters");
}

}  // namespace

// Operations are in topological order, so one pass suffices.
void UntrainedParameters::FindUpdates(const Graph& graph) {
  found_updates_ = true;
  std::vector<bool> depends(graph.operations().size(), false);
  for (const auto& operation : graph.operations()) {
    bool any = graph.FindVariable(operation->result()) != nullptr;
    for (const Tensor& input : operation->inputs()) {
      any = any || depends[input.operation()->id()];
    }
    depends[operation->id()] = any;
    const VariableInfo* assigned = operation->AssignedVariable();
    if (any && assigned != nullptr) known_.insert(assigned->id);
  }
}

std::string UntrainedParameters::Report(const Graph& graph,
                                        const std::vector<Tensor>& targets) {
  std::vector<Tensor> roots;
  for (const Tensor& target : targets) {
    if (graph.FindVariable(target) == nullptr) roots.push_back(target);
  }
  if (roots.empty()) return "";
  if (!found_updates_) FindUpdates(graph);
  absl::flat_hash_set<int> read;
  VisitAncestors(graph, roots, [&](const Operation& operation) {
    const VariableInfo* info = graph.FindVariable(operation.result());
    if (info != nullptr && info->trainable && IsFloat(info->dtype) &&
        info->kind == VariableKind::kParameter && !known_.contains(info->id)) {
      read.insert(info->id);
    }
  });
  // In the order of creation: the hash set has another in every process.
  std::vector<const VariableInfo*> parameters;
  for (const VariableInfo& info : graph.variables()) {
    if (!read.contains(info.id)) continue;
    parameters.push_back(&info);
    known_.insert(info.id);
  }
  return parameters.empty() ? "" : Describe(parameters);
}

void UntrainedParameters::NoteRun(const Graph& graph,
                                  const std::vector<Tensor>& targets) {
  VisitAncestors(graph, targets, [this](const Operation& operation) {
    const VariableInfo* assigned = operation.AssignedVariable();
    if (assigned != nullptr) known_.insert(assigned->id);
  });
}

}  // namespace mtf::train
