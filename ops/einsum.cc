// SPDX-License-Identifier: Apache-2.0
#include "ops/einsum.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/reshape.h"

namespace mtf {
namespace {

class EinsumOp : public Operation {
 public:
  EinsumOp(std::vector<Tensor> inputs, Shape shape, DType dtype)
      : Operation(inputs, std::move(shape), dtype) {}
  absl::string_view kind() const override { return "einsum"; }
  std::string attributes() const override {
    return dtype() == input(0).dtype() ? "" : std::string(DTypeName(dtype()));
  }

  // The gradient of an input is the einsum of `dy` with all other inputs.
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    const Tensor dy = of_results[0];
    std::vector<Tensor> gradients;
    for (size_t i = 0; i < inputs().size(); ++i) {
      std::vector<Tensor> factors = inputs();
      factors[i] = Cast(dy, input(0).dtype());
      // A gradient that accumulates in f32 is computed in f32.
      const DType wanted = inputs()[i].gradient_dtype();
      const EinsumOptions options = {
          .dtype = wanted == kFloat32 ? wanted : input(0).dtype()};
      // A dimension that only input i has was summed over: the gradient is
      // broadcast along it.
      Shape shared;
      for (const Dimension& dim : inputs()[i].shape()) {
        for (const Tensor& factor : factors) {
          if (!factor.shape().Contains(dim.name)) continue;
          shared = shared.With(dim);
          break;
        }
      }
      gradients.push_back(Broadcast(Einsum(std::move(factors), shared, options),
                                    inputs()[i].shape()));
    }
    return gradients;
  }

  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Einsum(inputs, shape(), dtype());
  }
};

absl::Status Check(const Graph& graph, const std::vector<Tensor>& inputs,
                   const Shape& output, const EinsumOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, inputs));
  MTF_RETURN_IF_ERROR(output.Validate());
  MTF_RETURN_IF_ERROR(internal::CheckSizes(inputs, &output));
  for (const Dimension& dim : output) {
    bool found = false;
    for (const Tensor& input : inputs) {
      found = found || input.shape().Contains(dim.name);
    }
    if (found) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "output dimension \"", dim.name, "\" is in no input",
        DescribeInputs(inputs), "\n  output   [", output.ToString(),
        "]\n  help     Broadcast() the result where a new dimension is meant"));
  }
  MTF_RETURN_IF_ERROR(internal::CheckOneDType(inputs));
  if (inputs[0].dtype() == kBool) {
    return absl::InvalidArgumentError(
        absl::StrCat("einsum takes a float or integer dtype, not bool",
                     DescribeInputs(inputs), "\n  help     Cast() the inputs"));
  }
  const DType dtype = inputs[0].dtype(), wanted = options.dtype.value_or(dtype);
  if (wanted != dtype && !(wanted == kFloat32 && IsFloat(dtype))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an einsum of ", DTypeName(dtype), " gives ", DTypeName(dtype),
        IsFloat(dtype) && dtype != kFloat32 ? " or f32" : "", ", not ",
        DTypeName(wanted), DescribeInputs(inputs),
        "\n  help     Cast() the inputs or the result"));
  }
  return absl::OkStatus();
}

}  // namespace

Tensor Einsum(std::vector<Tensor> inputs, Shape output, EinsumOptions options,
              std::source_location location) {
  Graph* graph = internal::GraphOf(inputs);
  if (graph == nullptr) return {};
  internal::AdoptDType(absl::MakeSpan(inputs), location);
  const absl::Status status = Check(*graph, inputs, output, options);
  if (!status.ok()) {
    return graph->Fail(status, "einsum", location, std::move(output),
                       inputs[0].dtype());
  }
  const DType dtype = options.dtype.value_or(inputs[0].dtype());
  return graph->Add(
      std::make_unique<EinsumOp>(std::move(inputs), std::move(output), dtype),
      location);
}

}  // namespace mtf
