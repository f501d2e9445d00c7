// SPDX-License-Identifier: Apache-2.0
#include "ops/variable.h"

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/check.h"
#include "mtf/errors.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/elementwise.h"

namespace mtf {
namespace {

class VariableOp : public Operation {
 public:
  VariableOp(Shape shape, DType dtype)
      : Operation({}, std::move(shape), dtype) {}
  absl::string_view kind() const override { return "variable"; }
  std::string attributes() const override {
    const VariableInfo* info = graph().FindVariable(result());
    return info == nullptr || info->name == name() ? "" : info->name;
  }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  DType gradient_dtype(int) const override {
    const VariableInfo* info = graph().FindVariable(result());
    return info == nullptr ? dtype() : info->gradient_dtype.value_or(dtype());
  }
  EmittedValues Emit(Emitter& emitter, absl::Span<const Value>) const override {
    const VariableInfo* info = graph().FindVariable(result());
    MTF_CHECK(info != nullptr) << name() << " is not a variable of its graph";
    return emitter.ReadVariable(*info);
  }
};

class AssignOp : public Operation {
 public:
  AssignOp(Tensor variable, Tensor value)
      : Operation({value}, value.shape(), value.dtype()), variable_(variable) {}
  absl::string_view kind() const override { return "assign"; }
  std::string attributes() const override { return info().name; }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override {
    return {of_results[0]};
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.WriteVariable(info(), inputs[0]);
  }
  const VariableInfo* AssignedVariable() const override { return &info(); }

 private:
  const VariableInfo& info() const { return *graph().FindVariable(variable_); }
  const Tensor variable_;
};

class GroupOp : public Operation {
 public:
  explicit GroupOp(std::vector<Tensor> inputs)
      : Operation(std::move(inputs), {}, kFloat32) {}
  absl::string_view kind() const override { return "group"; }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter& emitter, absl::Span<const Value>) const override {
    return emitter.Map(MapExpression::Literal(0, kFloat32), {}, {});
  }
};

// Checks that an initial value depends on no feed and no variable: it is
// computed before the first step.
absl::Status CheckIsIndependent(Tensor initial_value) {
  std::vector<const Operation*> open = {initial_value.operation()};
  std::set<int> seen;
  while (!open.empty()) {
    const Operation* operation = open.back();
    open.pop_back();
    if (!seen.insert(operation->id()).second) continue;
    const absl::string_view kind = operation->kind();
    if (kind == "input" || kind == "variable" || kind == "assign") {
      return absl::InvalidArgumentError(absl::StrCat(
          "the initial value \"", initial_value.name(), "\" depends on ", kind,
          " \"", operation->name(), "\"",
          "\n  help     it is computed before the first step: use constants "
          "and random numbers"));
    }
    for (const Tensor& input : operation->inputs()) {
      open.push_back(input.operation());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDTypes(Tensor initial_value, const VariableOptions& options) {
  const DType master = initial_value.dtype(),
              dtype = options.dtype.value_or(master);
  if (dtype != master && !(master == kFloat32 && IsFloat(dtype))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a variable of ", DTypeName(dtype), " cannot be rounded from ",
        DTypeName(master), DescribeInputs({initial_value}),
        "\n  help     give the variable an initial value of f32, or of its own "
        "dtype"));
  }
  if (options.gradient_dtype.has_value() && !IsFloat(*options.gradient_dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradients have a float dtype, not ",
                     DTypeName(*options.gradient_dtype)));
  }
  return absl::OkStatus();
}

absl::Status CheckMasterOf(const Graph& graph, Tensor parameter,
                           Tensor initial_value) {
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, {parameter}));
  const VariableInfo* info = graph.FindVariable(parameter);
  if (info == nullptr || !info->master_value.valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", parameter.name(),
                     "\" is not a variable that was rounded from another dtype",
                     DescribeInputs({parameter})));
  }
  if (info->master >= 0) {
    return absl::AlreadyExistsError(absl::StrCat(
        "variable \"", info->name, "\" already has the master copy \"",
        graph.variables()[info->master].name, "\""));
  }
  if (info->shape == initial_value.shape() &&
      info->master_value.dtype() == initial_value.dtype()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a master copy of \"", info->name,
                   "\" has the shape and dtype of its initial value",
                   DescribeInputs({info->master_value, initial_value})));
}

absl::Status CheckVariable(const Graph& graph, absl::string_view name,
                           Tensor initial_value,
                           const VariableOptions& options) {
  MTF_RETURN_IF_ERROR(internal::CheckName(name));
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, {initial_value}));
  MTF_RETURN_IF_ERROR(CheckDTypes(initial_value, options));
  const int rank = initial_value.shape().rank();
  const KernelDims& kernel = options.kernel;
  if (kernel.each < 0 || kernel.fan_in < 0 ||
      kernel.each + kernel.fan_in > rank) {
    return absl::InvalidArgumentError(
        absl::StrCat(".kernel is {", kernel.each, ", ", kernel.fan_in,
                     "}, not two numbers of dimensions whose sum is at most ",
                     rank, DescribeInputs({initial_value})));
  }
  if (options.master_of.valid()) {
    MTF_RETURN_IF_ERROR(CheckMasterOf(graph, options.master_of, initial_value));
  }
  return CheckIsIndependent(initial_value);
}

absl::Status CheckAssign(const Graph& graph, Tensor variable, Tensor value) {
  const Tensor inputs[] = {variable, value};
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, inputs));
  if (graph.FindVariable(variable) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", variable.name(), "\" is not a variable", DescribeInputs(inputs),
        "\n  help     Assign() takes what Variable() returned"));
  }
  MTF_RETURN_IF_ERROR(internal::CheckSizes(inputs));
  MTF_RETURN_IF_ERROR(internal::CheckOneDType(inputs));
  if (!variable.shape().SameDimensions(value.shape())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", value.name(), "\" has other dimensions than variable \"",
        variable.name(), "\"", DescribeInputs(inputs)));
  }
  return absl::OkStatus();
}

}  // namespace

Tensor Variable(Graph& graph, absl::string_view name, Tensor initial_value,
                VariableOptions options, std::source_location location) {
  const absl::Status status =
      CheckVariable(graph, name, initial_value, options);
  const DType dtype = options.dtype.value_or(initial_value.dtype());
  if (!status.ok()) {
    return graph.Fail(status, "variable", location, initial_value.shape(),
                      dtype);
  }
  if (graph.reuses_variables()) {
    // A moving average may be wider than its parameter.
    return Cast(
        graph.ReuseVariable(name, initial_value.shape(), dtype, location),
        dtype, location);
  }
  VariableInfo info;
  info.name = std::string(name);
  info.shape = initial_value.shape();
  info.dtype = dtype;
  info.gradient_dtype = options.gradient_dtype;
  info.kind = options.kind;
  info.kernel = options.kernel;
  info.trainable = options.trainable && options.kind != VariableKind::kState;
  info.initial_value = Cast(initial_value, dtype, location);
  if (dtype != initial_value.dtype()) info.master_value = initial_value;
  if (options.master_of.valid()) {
    info.master_of = graph.FindVariable(options.master_of)->id;
  }
  info.read = graph.Add(std::make_unique<VariableOp>(info.shape, info.dtype),
                        location, name);
  return graph.AddVariable(std::move(info), location);
}

Tensor StateVariable(Graph& graph, absl::string_view name, Tensor initial_value,
                     std::source_location location) {
  return Variable(graph, name, initial_value, {.kind = VariableKind::kState},
                  location);
}

Tensor StateVariable(Graph& graph, absl::string_view name, DType dtype,
                     Shape shape, std::source_location location) {
  return StateVariable(
      graph, name, Zeros(graph, dtype, std::move(shape), location), location);
}

Tensor Assign(Tensor variable, Tensor value, std::source_location location) {
  Graph* graph = internal::GraphOf({variable, value});
  if (graph == nullptr) return {};
  if (variable.valid()) {
    Tensor pair[] = {variable, value};
    internal::AdoptDType(absl::MakeSpan(pair), location);
    value = pair[1];
  }
  const absl::Status status = CheckAssign(*graph, variable, value);
  if (!status.ok()) {
    return graph->Fail(status, "assign", location, variable.shape(),
                       variable.dtype());
  }
  value = internal::InOrderOf(value, variable.shape(), location);
  return graph->Add(std::make_unique<AssignOp>(variable, value), location);
}

namespace {

// Assigns a function of the variable and the value.
Tensor AssignResult(Tensor (*function)(TensorArg, TensorArg), Tensor variable,
                    Tensor value, absl::string_view what,
                    std::source_location location) {
  Graph* graph = internal::GraphOf({variable, value});
  if (graph == nullptr) return {};
  if (variable.valid()) {
    Tensor pair[] = {variable, value};
    internal::AdoptDType(absl::MakeSpan(pair), location);
    value = pair[1];
  }
  const absl::Status status = CheckAssign(*graph, variable, value);
  if (!status.ok()) {
    return graph->Fail(status, what, location, variable.shape(),
                       variable.dtype());
  }
  return Assign(variable, function({variable, location}, {value, location}),
                location);
}

}  // namespace

Tensor AssignAdd(Tensor variable, Tensor value, std::source_location location) {
  return AssignResult(Add, variable, value, "assign_add", location);
}

Tensor AssignSub(Tensor variable, Tensor value, std::source_location location) {
  return AssignResult(Subtract, variable, value, "assign_sub", location);
}

Tensor Group(Graph& graph, std::vector<Tensor> tensors,
             std::source_location location) {
  const absl::Status status = internal::CheckInputs(graph, tensors);
  if (!status.ok()) return graph.Fail(status, "group", location);
  return graph.Add(std::make_unique<GroupOp>(std::move(tensors)), location);
}

}  // namespace mtf
