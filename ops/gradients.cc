// SPDX-License-Identifier: Apache-2.0
#include "ops/gradients.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"

namespace mtf {
namespace {

// Reverse-mode differentiation from y. Both vectors are indexed by Tensor::id()
// and end with the last result of the operation of y.
class Backward {
 public:
  Backward(Graph& graph, Tensor y, const std::vector<Tensor>& xs,
           int first_operation)
      : graph_(graph),
        y_(y),
        first_operation_(first_operation),
        depends_(LastOf(*y.operation()) + 1),
        contributions_(depends_.size()) {
    for (const Tensor& x : xs) Mark(x);
    // Operations are in topological order, so this visits readers first.
    for (int id = first_operation; id <= y.operation()->id(); ++id) {
      const Operation& operation = *graph.operations()[id];
      const bool depends = std::any_of(
          operation.inputs().begin(), operation.inputs().end(),
          [&](const Tensor& input) { return DependsAsFloat(input); });
      for (int i = 0; depends && i < operation.num_results(); ++i) {
        depends_[operation.result(i).id()] = true;
      }
    }
  }

  void Run(Tensor dy) {
    if (!depends_[y_.id()]) return;
    {
      GradientScope scope(graph_, *y_.operation());
      contributions_[y_.id()].push_back(Cast(dy, y_.gradient_dtype()));
    }
    for (int id = y_.operation()->id(); id >= first_operation_; --id) {
      const Operation& operation = *graph_.operations()[id];
      if (!HasContributions(operation)) continue;
      GradientScope scope(graph_, operation);
      std::vector<Tensor> of_results(operation.num_results());
      for (int i = 0; i < operation.num_results(); ++i) {
        std::vector<Tensor>& contributions =
            contributions_[operation.result(i).id()];
        if (contributions.empty()) continue;
        // Store the sum, so that it is also the gradient of an x that is this
        // result.
        contributions = {Sum(operation, std::move(contributions))};
        of_results[i] = contributions[0];
      }
      AddInputGradients(operation, of_results);
    }
  }

  // The gradient with respect to `x`, with the dimensions in the order of `x`.
  Tensor GradientOf(Tensor x) const {
    if (!x.valid() || !IsInRange(x) || contributions_[x.id()].empty()) {
      return {};
    }
    GradientScope scope(graph_, *x.operation());
    return internal::InOrderOf(Sum(*x.operation(), contributions_[x.id()]),
                               x.shape());
  }

 private:
  // Adds up contributions to the gradient of a result of `producer`. If all are
  // computed in one scope that does not contain the producer, such as a layer
  // that reads it several times, the rules of that scope apply: the sum alone
  // is resharded.
  Tensor Sum(const Operation& producer,
             std::vector<Tensor> contributions) const {
    if (contributions.size() < 2) return AddN(std::move(contributions));
    int common = contributions[0].operation()->scope();
    for (const Tensor& each : contributions) {
      common = graph_.CommonScope(common, each.operation()->scope());
    }
    const bool contains_producer =
        graph_.CommonScope(common, producer.scope()) == common;
    const RulesScope rules(graph_,
                           contains_producer ? producer.scope() : common);
    std::optional<AxisConflictScope> conflict;
    if (!contains_producer) {
      const AxisConflict* of_readers =
          contributions[0].operation()->axis_conflict();
      conflict.emplace(graph_,
                       of_readers == nullptr ? AxisConflict() : *of_readers);
    }
    return AddN(std::move(contributions));
  }

  static int LastOf(const Operation& operation) {
    return operation.result(operation.num_results() - 1).id();
  }
  bool IsInRange(Tensor x) const {
    return x.id() < static_cast<int>(depends_.size());
  }
  void Mark(Tensor x) {
    if (!x.valid() || !IsFloat(x.dtype())) return;
    if (IsInRange(x)) depends_[x.id()] = true;
  }
  bool DependsAsFloat(const Tensor& x) const {
    return IsFloat(x.dtype()) && depends_[x.id()];
  }
  bool HasContributions(const Operation& operation) const {
    for (int i = 0; i < operation.num_results(); ++i) {
      if (!contributions_[operation.result(i).id()].empty()) return true;
    }
    return false;
  }

  // Adds the gradients of the inputs of `operation` to their contributions.
  void AddInputGradients(const Operation& operation,
                         absl::Span<const Tensor> of_results) {
    const auto wanted = [&](const Tensor& input) {
      return DependsAsFloat(input);
    };
    if (std::none_of(operation.inputs().begin(), operation.inputs().end(),
                     wanted)) {
      return;
    }
    const std::vector<Tensor> gradients = operation.Gradient(of_results);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Tensor input = operation.input(static_cast<int>(i));
      if (!gradients[i].valid() || !wanted(input)) continue;
      MTF_CHECK(gradients[i].shape().SameDimensions(input.shape()) ||
                !graph_.status().ok())
          << "the gradient of " << operation.kind() << " for \"" << input.name()
          << "\" [" << input.shape().ToString() << "] is ["
          << gradients[i].shape().ToString() << "]";
      contributions_[input.id()].push_back(
          Cast(gradients[i], input.gradient_dtype()));
    }
  }

  Graph& graph_;
  const Tensor y_;
  const int first_operation_;
  std::vector<bool> depends_;  // on some x, through floats
  std::vector<std::vector<Tensor>> contributions_;
};

absl::Status Check(Tensor y, const std::vector<Tensor>& xs, Tensor dy) {
  for (const Tensor& x : xs) {
    if (x.valid() && &x.graph() != &y.graph()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", x.name(), "\" and \"", y.name(),
                       "\" belong to different graphs"));
    }
  }
  if (!IsFloat(y.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradients of \"", y.name(), "\", which is ", DTypeName(y.dtype()),
        ", not a float dtype", DescribeInputs({y})));
  }
  if (!dy.valid()) return absl::OkStatus();
  const Tensor both[] = {y, dy};
  MTF_RETURN_IF_ERROR(internal::CheckInputs(y.graph(), both));
  MTF_RETURN_IF_ERROR(internal::CheckSizes(both));
  MTF_RETURN_IF_ERROR(internal::CheckOneDType(both));
  if (!y.shape().SameDimensions(dy.shape())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the gradient \"", dy.name(), "\" of \"", y.name(),
                     "\" has other dimensions", DescribeInputs(both)));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Tensor> Gradients(Tensor y, std::vector<Tensor> xs, Tensor dy,
                              std::source_location location) {
  return internal::GradientsWithin(y, std::move(xs), dy, 0, location);
}

std::vector<Tensor> internal::GradientsWithin(Tensor y, std::vector<Tensor> xs,
                                              Tensor dy, int first_operation,
                                              std::source_location location) {
  std::vector<Tensor> gradients(xs.size());
  if (!y.valid()) return gradients;
  const absl::Status status = Check(y, xs, dy);
  if (!status.ok()) {
    for (size_t i = 0; i < xs.size(); ++i) {
      gradients[i] = y.graph().Fail(status, "gradients", location,
                                    xs[i].shape(), xs[i].dtype());
    }
    if (xs.empty()) y.graph().Fail(status, "gradients", location);
    return gradients;
  }
  if (!dy.valid()) {
    GradientScope scope(y.graph(), *y.operation());
    dy = Ones(y.graph(), y.dtype(), y.shape());
  }
  Backward backward(y.graph(), y, xs, first_operation);
  backward.Run(dy);
  for (size_t i = 0; i < xs.size(); ++i) {
    gradients[i] = backward.GradientOf(xs[i]);
  }
  return gradients;
}

}  // namespace mtf
