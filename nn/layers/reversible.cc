// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reversible.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "nn/layers/adapter.h"
#include "nn/layers/layer_scope.h"
#include "ops/checks.h"
#include "ops/custom_gradient.h"
#include "ops/elementwise.h"
#include "ops/gradients.h"

namespace mtf::nn {
namespace {

// One f of the stack, with the tensors from outside that it reads besides its
// operand.
struct Half {
  std::function<Tensor(Tensor)> function;
  RecomputeScope::State state;
  std::shared_ptr<internal::AdapterState> adapters;
  std::vector<Tensor> read;
};

int NumOperations(const Graph& graph) {
  return static_cast<int>(graph.operations().size());
}

// The variables and the floats from before operation `begin` that the
// operations from there on read.
std::vector<Tensor> FindReads(const Graph& graph, int begin) {
  std::vector<Tensor> reads;
  const auto add = [&](const Tensor& read) {
    const bool known =
        std::any_of(reads.begin(), reads.end(),
                    [&](const Tensor& r) { return SameTensor(r, read); });
    if (!known) reads.push_back(read);
  };
  for (int i = begin; i < NumOperations(graph); ++i) {
    const Operation& operation = *graph.operations()[i];
    if (graph.FindVariable(operation.result()) != nullptr) {
      add(operation.result());
    }
    for (const Tensor& input : operation.inputs()) {
      if (input.operation()->id() < begin && IsFloat(input.dtype())) add(input);
    }
  }
  return reads;
}

absl::Status CheckLike(Tensor x, Tensor y, absl::string_view what) {
  if (x.shape() == y.shape() && x.dtype() == y.dtype()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " must have the shape and dtype of x1", DescribeInputs({x, y})));
}

// The gradients of x1, x2 and of what all halves read, in order.
std::vector<Tensor> BackwardThrough(const std::vector<Half>& halves, Tensor y1,
                                    Tensor y2,
                                    const std::vector<Tensor>& of_outputs) {
  Graph& graph = y1.graph();
  Tensor d1 = of_outputs[0], d2 = of_outputs[1];
  std::vector<std::vector<Tensor>> of_reads(halves.size());
  for (size_t i = halves.size(); i-- > 0;) {
    const Half& half = halves[i];
    const RecomputeScope scope(graph, half.state);
    const internal::RestoredAdapters adapters(half.adapters);
    const Tensor x = y1;
    const int begin = NumOperations(graph);
    const Tensor f = half.function(x);
    std::vector<Tensor> xs = half.read;
    xs.push_back(x);
    std::vector<Tensor> gradients = mtf::internal::GradientsWithin(
        f, std::move(xs), Cast(d2, f.dtype()), begin);
    const Tensor dx = gradients.back();
    gradients.pop_back();
    of_reads[i] = std::move(gradients);
    const Tensor d_operand = dx.valid() ? d1 + Cast(dx, d1.dtype()) : d1;
    y1 = std::exchange(y2, x) - f;
    d1 = std::exchange(d2, d_operand);
  }
  std::vector<Tensor> all = {d1, d2};
  for (const std::vector<Tensor>& gradients : of_reads) {
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
    if (functions[i] == nullptr) {
      return fail(absl::InvalidArgumentError(
          absl::StrCat("function ", i, " of a reversible stack is empty")));
    }
    Half half = {functions[i],
                 RecomputeScope::State(*graph),
                 internal::CurrentAdapters(),
                 {}};
    // A tensor of its own: the function may read y2 from outside, too.
    const Tensor x = Identity(y2);
    const int begin = NumOperations(*graph);
    const Tensor f = functions[i](x);
    status = mtf::internal::CheckInputs(*graph, {f});
    if (status.ok()) {
      status = CheckLike(x1, f, absl::StrCat("the result of function ", i));
    }
    if (!status.ok()) return fail(status);
    for (const Tensor& read : FindReads(*graph, begin)) {
      if (!SameTensor(read, x)) half.read.push_back(read);
    }
    inputs.insert(inputs.end(), half.read.begin(), half.read.end());
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
