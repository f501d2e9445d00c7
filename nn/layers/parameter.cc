// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/parameter.h"

#include "absl/strings/str_cat.h"
#include "nn/layers/layer.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/variable.h"

namespace mtf::nn {
namespace {

absl::Status CheckDTypes(absl::string_view name, Tensor initial_value,
                         DType dtype) {
  if (!IsFloat(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter \"", name, "\" is used as ", DTypeName(dtype),
                     ", but parameters are floats"));
  }
  if (!initial_value.valid()) return absl::OkStatus();  // Variable() rejects it
  return internal::CheckFloat(initial_value,
                              absl::StrCat("the parameter \"", name, "\""));
}

Tensor MakeParameter(Graph& graph, absl::string_view name, Tensor initial_value,
                     DType dtype, KernelDims kernel,
                     std::source_location location) {
  const absl::Status status = CheckDTypes(name, initial_value, dtype);
  if (!status.ok()) {
    return graph.Fail(status, "parameter", location,
                      initial_value.valid() ? initial_value.shape() : Shape(),
                      dtype);
  }
  const Precision& precision = graph.precision();
  return Cast(Variable(graph, name, Cast(initial_value, precision.master),
                       {.dtype = precision.parameters,
                        .gradient_dtype = precision.gradients,
                        .kernel = kernel}),
              dtype);
}

}  // namespace

DType ActivationDType(Tensor x) {
  if (!x.valid()) return kFloat32;
  return x.graph().precision().activations.value_or(x.dtype());
}

Tensor Parameter(Graph& graph, absl::string_view name, Tensor initial_value,
                 DType dtype, std::source_location location) {
  CallSiteScope site(graph, location);
  return MakeParameter(graph, name, initial_value, dtype, {}, location);
}

Tensor Kernel(Graph& graph, absl::string_view name, const Shape& reduced,
              const Shape& output, DType dtype, KernelOptions options,
              std::source_location location) {
  CallSiteScope site(graph, location);
  const KernelShape kernel = {options.each, reduced, output, options.window};
  absl::Status status =
      mtf::internal::CheckNotNegative(".scale", options.scale);
  if (status.ok() && options.scale != KernelOptions().scale) {
    status = internal::CheckUnused(".scale", options.init);
  }
  if (!status.ok()) {
    return graph.Fail(status, "kernel", location, kernel.Joined(), dtype);
  }
  if (options.init == nullptr) {
    options.init = VarianceScaling({.scale = options.scale});
  }
  return MakeParameter(
      graph, name, internal::InitialValue(graph, options.init, kernel, name),
      dtype, {.each = options.each.rank(), .fan_in = reduced.rank()}, location);
}

}  // namespace mtf::nn
