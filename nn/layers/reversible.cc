// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reversible.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/custom_gradient.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"
#include "ops/stop_gradient.h"

namespace mtf::nn {
namespace {

// One f of the stack, with the variables that it reads.
struct Half {
  std::function<Tensor(Tensor)> function;
  RecomputeScope::State state;
  std::vector<Tensor> variables;
};

bool IsVariable(const Graph& graph, const Operation& operation) {
  return graph.FindVariable(operation.result()) != nullptr;
}

bool StopsGradients(const Operation& operation) {
  return operation.kind() == "stop_gradient";
}

// Whether gradients flow from `tensor` to a variable.
bool DependsOnVariable(const Graph& graph, const Tensor& tensor) {
  std::vector<const Operation*> open = {tensor.operation()};
  absl::flat_hash_set<const Operation*> seen(open.begin(), open.end());
  while (!open.empty()) {
    const Operation& operation = *open.back();
    open.pop_back();
    if (IsVariable(graph, operation)) return true;
    if (StopsGradients(operation)) continue;
    for (const Tensor& input : operation.inputs()) {
      if (seen.insert(input.operation()).second) {
        open.push_back(input.operation());
      }
    }
  }
  return false;
}

// Finds the variables that the operations from `begin` on read. An error if
// they read another tensor from outside, apart from `x`, with a gradient.
absl::StatusOr<std::vector<Tensor>> FindVariables(const Graph& graph, int begin,
                                                  Tensor x) {
  std::vector<Tensor> variables;
  const auto add = [&](const Tensor& variable) {
    const bool known =
        std::any_of(variables.begin(), variables.end(),
                    [&](const Tensor& v) { return SameTensor(v, variable); });
    if (!known) variables.push_back(variable);
  };
  const auto& operations = graph.operations();
  for (size_t i = begin; i < operations.size(); ++i) {
    if (IsVariable(graph, *operations[i])) add(operations[i]->result());
    if (StopsGradients(*operations[i])) continue;
    for (const Tensor& input : operations[i]->inputs()) {
      if (input.operation()->id() >= begin || SameTensor(input, x)) continue;
      if (IsVariable(graph, *input.operation())) {
        add(input);
      } else if (IsFloat(input.dtype()) && DependsOnVariable(graph, input)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "a function of a reversible stack reads \"", input.name(),
            "\", which is computed from variables outside of the function",
            DescribeInputs({input}),
            "\n  help     compute it inside of the function, or pass it "
            "through StopGradient()"));
      }
    }
  }
  return variables;
}

absl::Status CheckLike(Tensor x, Tensor y, absl::string_view what) {
  if (x.shape() == y.shape() && x.dtype() == y.dtype()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("reversible layers need one shape and dtype, and ", what,
                   " has another one", DescribeInputs({x, y})));
}

// The gradients of x1, x2 and of the variables of all halves, in order.
std::vector<Tensor> BackwardThrough(const std::vector<Half>& halves, Tensor y1,
                                    Tensor y2,
                                    const std::vector<Tensor>& of_outputs) {
  Tensor d1 = of_outputs[0], d2 = of_outputs[1];
  std::vector<std::vector<Tensor>> of_variables(halves.size());
  for (size_t i = halves.size(); i-- > 0;) {
    const Half& half = halves[i];
    // The operand of the function, cut off from what it was computed from.
    const Tensor x = StopGradient(y1);
    const RecomputeScope scope(x.graph(), half.state);
    const Tensor f = half.function(x);
    std::vector<Tensor> read = half.variables;
    read.push_back(x);
    std::vector<Tensor> gradients = Gradients(f, read, Cast(d2, f.dtype()));
    const Tensor dx = gradients.back();
    gradients.pop_back();
    of_variables[i] = std::move(gradients);
    const Tensor d_operand = dx.valid() ? d1 + Cast(dx, d1.dtype()) : d1;
    y1 = std::exchange(y2, x);
    y1 = y1 - f;
    d1 = std::exchange(d2, d_operand);
  }
  std::vector<Tensor> all = {d1, d2};
  for (const std::vector<Tensor>& gradients : of_variables) {
    all.insert(all.end(), gradients.begin(), gradients.end());
  }
  return all;
}

}  // namespace

std::pair<Tensor, Tensor> ReversibleStack(
    Tensor x1, Tensor x2, std::vector<std::function<Tensor(Tensor)>> functions,
    std::source_location location) {
  Graph* graph = mtf::internal::GraphOf({x1, x2});
  if (graph == nullptr) return {};
  LayerScope layer(*graph, "reversible", location);
  const auto fail = [&](const absl::Status& status) {
    const Tensor none =
        graph->Fail(status, "reversible", location, x1.shape(), x1.dtype());
    return std::pair(none, none);
  };
  absl::Status status = mtf::internal::CheckInputs(*graph, {x1, x2});
  if (status.ok()) status = CheckLike(x1, x2, "x2");
  if (!status.ok()) return fail(status);
  std::vector<Half> halves;
  std::vector<Tensor> inputs = {x1, x2};
  Tensor y1 = x1, y2 = x2;
  for (size_t i = 0; i < functions.size(); ++i) {
    const Scope scope(*graph, absl::StrCat("half_", i));
    Half half = {functions[i], RecomputeScope::State(*graph), {}};
    const int begin = static_cast<int>(graph->operations().size());
    // As the function is called again for the gradient.
    const Tensor x = StopGradient(y2);
    const Tensor f = functions[i](x);
    status = mtf::internal::CheckInputs(*graph, {f});
    if (status.ok()) {
      status = CheckLike(x, f, absl::StrCat("the result of function ", i));
    }
    if (!status.ok()) return fail(status);
    auto variables = FindVariables(*graph, begin, y2);
    if (!variables.ok()) return fail(variables.status());
    half.variables = *std::move(variables);
    inputs.insert(inputs.end(), half.variables.begin(), half.variables.end());
    halves.push_back(std::move(half));
    y1 = std::exchange(y2, y1 + f);
  }
  const std::vector<Tensor> outputs = CustomGradient(
      {y1, y2}, inputs,
      [halves = std::move(halves), y1, y2](const std::vector<Tensor>& dy) {
        return BackwardThrough(halves, y1, y2, dy);
      },
      location);
  return {outputs[0], outputs[1]};
}

}  // namespace mtf::nn
