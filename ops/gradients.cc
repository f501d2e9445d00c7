// SPDX-License-Identifier: Apache-2.0
#include "ops/gradients.h"

#include <algorithm>
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

// Reverse-mode differentiation from y. All vectors are indexed by operation id.
class Backward {
 public:
  Backward(Graph& graph, Tensor y, const std::vector<Tensor>& xs)
      : graph_(graph),
        depends_(y.operation()->id() + 1),
        contributions_(y.operation()->id() + 1) {
    for (const Tensor& x : xs) Mark(x);
    // Operations are in topological order, so this visits readers first.
    for (size_t id = 0; id < depends_.size(); ++id) {
      for (const Tensor& input : graph.operations()[id]->inputs()) {
        if (IsFloat(input.dtype()) && Depends(input)) depends_[id] = true;
      }
    }
  }

  void Run(Tensor dy) {
    const size_t last = contributions_.size() - 1;
    if (!depends_[last]) return;
    {
      const Operation& y = *graph_.operations()[last];
      GradientScope scope(graph_, y);
      contributions_[last].push_back(Cast(dy, y.gradient_dtype()));
    }
    for (size_t id = last + 1; id-- > 0;) {
      if (contributions_[id].empty()) continue;
      const Operation& operation = *graph_.operations()[id];
      GradientScope scope(graph_, operation);
      // Store the sum, so that it is also the gradient of an x with this id.
      contributions_[id] = {AddN(std::move(contributions_[id]))};
      AddInputGradients(operation, contributions_[id][0]);
    }
  }

  // The gradient with respect to `x`, with the dimensions in the order of `x`.
  Tensor GradientOf(Tensor x) const {
    if (!x.valid()) return {};
    const size_t id = x.operation()->id();
    if (id >= contributions_.size() || contributions_[id].empty()) return {};
    GradientScope scope(graph_, *x.operation());
    return internal::InOrderOf(contributions_[id][0], x.shape());
  }

 private:
  void Mark(Tensor x) {
    if (!x.valid() || !IsFloat(x.dtype())) return;
    const size_t id = x.operation()->id();
    if (id < depends_.size()) depends_[id] = true;
  }
  bool Depends(Tensor x) const { return depends_[x.operation()->id()]; }

  // Adds the gradients of the inputs of `operation` to their contributions.
  void AddInputGradients(const Operation& operation, Tensor dy) {
    const auto wanted = [&](const Tensor& input) {
      return IsFloat(input.dtype()) && Depends(input);
    };
    if (std::none_of(operation.inputs().begin(), operation.inputs().end(),
                     wanted)) {
      return;
    }
    const std::vector<Tensor> gradients = operation.Gradient(dy);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Tensor input = operation.input(static_cast<int>(i));
      if (!gradients[i].valid() || !wanted(input)) continue;
      MTF_CHECK(gradients[i].shape().SameDimensions(input.shape()) ||
                !graph_.status().ok())
          << "the gradient of " << operation.kind() << " for \"" << input.name()
          << "\" [" << input.shape().ToString() << "] is ["
          << gradients[i].shape().ToString() << "]";
      const Operation& source = *input.operation();
      contributions_[source.id()].push_back(
          Cast(gradients[i], source.gradient_dtype()));
    }
  }

  Graph& graph_;
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
  Backward backward(y.graph(), y, xs);
  backward.Run(dy);
  for (size_t i = 0; i < xs.size(); ++i) {
    gradients[i] = backward.GradientOf(xs[i]);
  }
  return gradients;
}

}  // namespace mtf
