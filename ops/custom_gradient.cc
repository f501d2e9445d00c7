// SPDX-License-Identifier: Apache-2.0
#include "ops/custom_gradient.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/constant.h"

namespace mtf {
namespace {

// Its inputs are the outputs of CustomGradient(), which are its results, and
// then the inputs.
class CustomGradientOp : public Operation {
 public:
  CustomGradientOp(std::vector<Tensor> all, std::vector<ResultType> results,
                   GradientFunction gradient, std::source_location location)
      : Operation(std::move(all), std::move(results)),
        gradient_(std::move(gradient)),
        location_(location) {
    for (int i = 0; i < num_results(); ++i) {
      names_of_results_.push_back(absl::StrCat("output_", i));
    }
  }

  absl::string_view kind() const override { return "custom_gradient"; }
  absl::string_view ResultName(int index) const override {
    return names_of_results_[index];
  }

  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    std::vector<Tensor> given;
    for (int i = 0; i < num_results(); ++i) {
      given.push_back(of_results[i].valid()
                          ? internal::InOrderOf(of_results[i], shape(i))
                          : Zeros(graph(), gradient_dtype(i), shape(i)));
    }
    const std::vector<Tensor> returned = gradient_(given);
    const absl::Status status = Check(returned);
    if (!status.ok()) {
      graph().Fail(status, "custom_gradient", location_);
      return {};
    }
    std::vector<Tensor> gradients(num_results());
    gradients.insert(gradients.end(), returned.begin(), returned.end());
    return gradients;
  }

  EmittedValues Emit(Emitter&, absl::Span<const Value> inputs) const override {
    EmittedValues values;
    for (int i = 0; i < num_results(); ++i) values.push_back(inputs[i]);
    return values;
  }

 private:
  absl::Status Check(const std::vector<Tensor>& gradients) const {
    const size_t count = inputs().size() - num_results();
    if (gradients.size() != count) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the gradient function returned ", gradients.size(), " tensors for ",
          count, " inputs",
          "\n  help     return one for each input, an empty Tensor for none"));
    }
    for (size_t i = 0; i < count; ++i) {
      const Tensor& gradient = gradients[i];
      const Tensor& input = this->input(num_results() + static_cast<int>(i));
      if (!gradient.valid()) continue;
      MTF_RETURN_IF_ERROR(internal::CheckInputs(graph(), {gradient}));
      if (IsFloat(gradient.dtype()) &&
          gradient.shape().SameDimensions(input.shape())) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "the gradient of input ", i, ", \"", input.name(),
          "\", must be a float tensor with the dimensions of the input",
          DescribeInputs({input, gradient})));
    }
    return absl::OkStatus();
  }

  const GradientFunction gradient_;
  const std::source_location location_;
  std::vector<std::string> names_of_results_;
};

}  // namespace

std::vector<Tensor> CustomGradient(const std::vector<Tensor>& outputs,
                                   const std::vector<Tensor>& inputs,
                                   GradientFunction gradient,
                                   std::source_location location) {
  std::vector<Tensor> all = outputs;
  all.insert(all.end(), inputs.begin(), inputs.end());
  std::vector<Tensor> results(outputs.size());
  Graph* graph = internal::GraphOf(all);
  if (graph == nullptr) return results;
  absl::Status status = internal::CheckInputs(*graph, all);
  if (status.ok() && outputs.empty()) {
    status = absl::InvalidArgumentError("there is no output");
  }
  if (status.ok() && gradient == nullptr) {
    status = absl::InvalidArgumentError("there is no gradient function");
  }
  if (!status.ok()) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      results[i] = graph->Fail(status, "custom_gradient", location,
                               outputs[i].shape(), outputs[i].dtype());
    }
    if (outputs.empty()) graph->Fail(status, "custom_gradient", location);
    return results;
  }
  std::vector<ResultType> types;
  for (const Tensor& output : outputs) {
    types.push_back({output.shape(), output.dtype()});
  }
  const Tensor first = graph->Add(
      std::make_unique<CustomGradientOp>(std::move(all), std::move(types),
                                         std::move(gradient), location),
      location);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = first.operation()->result(static_cast<int>(i));
  }
  return results;
}

}  // namespace mtf
