// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/reference/interpreter.h"
#include "mtf/check.h"
#include "mtf/errors.h"

namespace mtf {
namespace {

// Checks that every feed belongs to an input, even to one this step does not
// need.
absl::Status CheckFeeds(const Graph& graph, const OracleFeeds& feeds) {
  std::vector<std::string> names;
  for (const auto& operation : graph.operations()) {
    if (operation->kind() != "input") continue;
    const std::string attributes = operation->attributes();
    names.push_back(attributes.empty() ? operation->name() : attributes);
  }
  for (const auto& [name, tensor] : feeds) {
    bool known = false;
    for (const std::string& input : names) known = known || input == name;
    if (known) continue;
    const std::string nearest = NearestName(name, names);
    return absl::InvalidArgumentError(absl::StrCat(
        "feed \"", name, "\" is not an input of the graph",
        nearest.empty()
            ? ""
            : absl::StrCat("\n  help     did you mean \"", nearest, "\"?")));
  }
  return absl::OkStatus();
}

// Limits the size of tensors before they are allocated.
absl::Status CheckFits(const Operation& operation) {
  constexpr int64_t kMaxElements = int64_t{1} << 28;
  for (int i = 0; i < operation.num_results(); ++i) {
    if (operation.shape(i).num_elements() <= kMaxElements) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "\"", operation.name(i), "\" ",
        DescribeTensor(operation.dtype(i), operation.shape(i)),
        " has more than 2^28 elements, too many for the oracle (",
        operation.kind(), ", ", operation.call_site().ToString(), ")"));
  }
  return absl::OkStatus();
}

// Whether some fetch depends on the operation, by operation id.
std::vector<bool> Needed(const Graph& graph,
                         const std::vector<Tensor>& fetches) {
  std::vector<bool> needed(graph.operations().size());
  for (const Tensor& fetch : fetches) needed[fetch.operation()->id()] = true;
  for (size_t id = needed.size(); id-- > 0;) {
    if (!needed[id]) continue;
    for (const Tensor& input : graph.operations()[id]->inputs()) {
      needed[input.operation()->id()] = true;
    }
  }
  return needed;
}

}  // namespace

absl::StatusOr<std::vector<OracleTensor>> Interpret(
    const Graph& graph, const OracleFeeds& feeds,
    const std::vector<Tensor>& fetches, OracleVariables* variables,
    InterpretOptions options) {
  MTF_RETURN_IF_ERROR(graph.status());
  MTF_RETURN_IF_ERROR(graph.CheckTensors(fetches, "fetch"));
  MTF_RETURN_IF_ERROR(CheckFeeds(graph, feeds));
  const std::vector<bool> needed = Needed(graph, fetches);
  ReferenceInterpreter interpreter(feeds, variables, options);
  std::vector<EmittedValues> values(needed.size());
  const auto value_of = [&](const Tensor& tensor) {
    return values[tensor.operation()->id()][tensor.index()];
  };
  for (size_t id = 0; id < needed.size(); ++id) {
    if (!needed[id]) continue;
    const Operation& operation = *graph.operations()[id];
    MTF_RETURN_IF_ERROR(CheckFits(operation));
    std::vector<Value> inputs;
    for (const Tensor& input : operation.inputs()) {
      inputs.push_back(value_of(input));
    }
    interpreter.set_operation(&operation);
    values[id] = operation.Emit(interpreter, inputs);
    MTF_RETURN_IF_ERROR(interpreter.status());
    // Check that Emit has returned the shapes and dtypes of the operation.
    MTF_CHECK_EQ(static_cast<int>(values[id].size()), operation.num_results())
        << operation.name();
    for (int i = 0; i < operation.num_results(); ++i) {
      const OracleTensor& result = interpreter.Get(values[id][i]);
      MTF_CHECK(result.shape == operation.shape(i) &&
                result.dtype == operation.dtype(i))
          << operation.name(i) << " promised "
          << DescribeTensor(operation.dtype(i), operation.shape(i))
          << " and emits " << DescribeTensor(result.dtype, result.shape);
    }
  }
  std::vector<OracleTensor> results;
  for (const Tensor& fetch : fetches) {
    results.push_back(interpreter.Get(value_of(fetch)));
  }
  if (variables != nullptr) {
    for (const auto& [name, value] : interpreter.writes()) {
      (*variables)[name] = value;
    }
  }
  return results;
}

absl::Status InitializeVariables(const Graph& graph, uint32_t seed,
                                 OracleVariables* variables) {
  MTF_RETURN_IF_ERROR(graph.status());
  std::vector<Tensor> initial_values;
  for (const VariableInfo& variable : graph.variables()) {
    initial_values.push_back(variable.initial_value);
  }
  MTF_ASSIGN_OR_RETURN(
      std::vector<OracleTensor> values,
      Interpret(graph, {}, initial_values, nullptr, {seed, 0}));
  for (const VariableInfo& variable : graph.variables()) {
    (*variables)[variable.name] = std::move(values[variable.id]);
  }
  return absl::OkStatus();
}

}  // namespace mtf
