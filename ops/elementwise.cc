// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mtf/errors.h"
#include "mtf/graph.h"
#include "ops/checks.h"
#include "ops/constant.h"
#include "ops/reduce.h"

namespace mtf {
namespace {

using F = ScalarFunction;

// A number as a Tensor, so that the gradients of rows can be written over
// Tensors. An operation that takes it as an operand stores its number instead,
// so it never reaches a program. Created only in this file.
class LiteralOp : public Operation {
 public:
  LiteralOp(double value, DType dtype)
      : Operation({}, {}, dtype), value(value) {}
  absl::string_view kind() const override { return "literal"; }
  std::string attributes() const override { return absl::StrCat(value); }
  std::vector<Tensor> Gradient(absl::Span<const Tensor>) const override {
    return {};
  }
  EmittedValues Emit(Emitter& emitter, absl::Span<const Value>) const override {
    return emitter.Map(MapExpression::Literal(value, dtype()), {}, {});
  }
  const double value;
};

const LiteralOp* AsLiteral(Tensor x) {
  return dynamic_cast<const LiteralOp*>(x.operation());
}

// An operand of a function: an input of the operation (by index), or a number.
struct Operand {
  int input = -1;
  double number = 0;
  DType dtype = kFloat32;

  friend bool operator==(const Operand&, const Operand&) = default;
};

// Applies a function of the table, kLogicalNot, kSelect or kCast.
class ElementwiseOp : public Operation {
 public:
  ElementwiseOp(F function, std::vector<Operand> operands,
                std::vector<Tensor> inputs, Shape shape, DType dtype)
      : Operation(std::move(inputs), std::move(shape), dtype),
        function_(function),
        operands_(std::move(operands)) {}

  absl::string_view kind() const override { return InfoOf(function_).text; }
  std::string attributes() const override {
    if (function_ == F::kCast) return std::string(DTypeName(dtype()));
    return operands_.size() == inputs().size() ? "" : Expression().ToString();
  }
  bool SameAttributes(const Operation& other) const override {
    const auto* as = dynamic_cast<const ElementwiseOp*>(&other);
    return as != nullptr && function_ == as->function_ &&
           operands_ == as->operands_;
  }
  std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const override;
  // The cast of a parameter has the gradient dtype of the parameter.
  DType gradient_dtype(int) const override {
    if (function_ != F::kCast || !IsFloat(dtype())) return dtype();
    const VariableInfo* info = graph().FindVariable(input(0));
    return info == nullptr ? dtype() : info->gradient_dtype.value_or(dtype());
  }
  EmittedValues Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const override {
    return emitter.Map(Expression(), inputs, shape());
  }

 private:
  // The operands that are numbers become literal steps before the function.
  MapExpression Expression() const {
    const int num_inputs = static_cast<int>(inputs().size());
    MapExpression expression{num_inputs, {}};
    expression.steps.reserve(operands_.size() - num_inputs + 1);
    MapStep step{function_, dtype(), {}, 0, ""};
    for (const Operand& operand : operands_) {
      if (operand.input >= 0) {
        step.arguments.push_back(operand.input);
        continue;
      }
      step.arguments.push_back(num_inputs +
                               static_cast<int>(expression.steps.size()));
      expression.steps.push_back(
          {F::kLiteral, operand.dtype, {}, operand.number, ""});
    }
    expression.steps.push_back(std::move(step));
    return expression;
  }

  // Operand `i` as a Tensor.
  Tensor Argument(size_t i) const {
    if (operands_[i].input >= 0) return input(operands_[i].input);
    return graph().Add(
        std::make_unique<LiteralOp>(operands_[i].number, operands_[i].dtype),
        std::source_location::current());
  }

  const F function_;
  const std::vector<Operand> operands_;
};

// The gradient of operand `i` by the table of functions, or an empty Tensor.
Tensor RowGradient(F function, int i, [[maybe_unused]] Tensor x,
                   [[maybe_unused]] Tensor y, [[maybe_unused]] Tensor z,
                   [[maybe_unused]] Tensor g) {
  switch (function) {
#define ROW(Name, text, value, gradient) \
  case F::k##Name:                       \
    return gradient;
    MTF_UNARY_FLOAT_FUNCTIONS(ROW)
    MTF_UNARY_NUMBER_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, value, gradient_x, gradient_y) \
  case F::k##Name: {                                   \
    if (i == 0) return gradient_x;                     \
    return gradient_y;                                 \
  }
    MTF_BINARY_NUMBER_FUNCTIONS(ROW)
    MTF_BINARY_FLOAT_FUNCTIONS(ROW)
#undef ROW
    case F::kCast:
      return Cast(g, x.gradient_dtype());
    default:  // bool results
      return {};
  }
}

std::vector<Tensor> ElementwiseOp::Gradient(
    absl::Span<const Tensor> of_results) const {
  const Tensor dy = of_results[0];
  std::vector<Tensor> gradients(inputs().size());
  for (size_t i = 0; i < operands_.size(); ++i) {
    const int index = operands_[i].input;
    if (index < 0 || !IsFloat(input(index).dtype())) continue;
    Tensor dx;
    if (function_ == F::kSelect) {
      if (i == 1) dx = Select(Argument(0), dy, 0.0);
      if (i == 2) dx = Select(Argument(0), 0.0, dy);
    } else {
      dx = RowGradient(function_, static_cast<int>(i), Argument(0),
                       operands_.size() > 1 ? Argument(1) : Tensor(), result(),
                       dy);
    }
    if (!dx.valid()) continue;
    // The gradient of a broadcast operand is summed over the new dimensions.
    if (!dx.shape().SameDimensions(input(index).shape())) {
      const DType wanted = input(index).gradient_dtype();
      if (wanted == kFloat32) dx = Cast(dx, wanted);
      dx = ReduceSum(dx, input(index).shape());
    }
    gradients[index] = dx;
  }
  return gradients;
}

absl::Status CheckDomain(F function, absl::Span<const Tensor> inputs,
                         DType dtype) {
  const ScalarFunctionInfo& info = InfoOf(function);
  const char* wanted = nullptr;
  switch (info.domain) {
    case FunctionDomain::kFloat:
      if (!IsFloat(dtype)) wanted = "a float dtype";
      break;
    case FunctionDomain::kNumber:
      if (dtype == kBool) wanted = "a float or integer dtype";
      break;
    case FunctionDomain::kLogical:
      if (dtype != kBool) wanted = "dtype bool";
      break;
    case FunctionDomain::kAny:
      break;
  }
  if (wanted == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(info.text, " takes ", wanted, ", not ", DTypeName(dtype),
                   DescribeInputs(inputs), "\n  help     Cast() the operand"));
}

// The dtype of operand `i`: the dtype of the tensors, except for a condition.
DType OperandDType(F function, size_t i, DType dtype) {
  return function == F::kSelect && i == 0 ? kBool : dtype;
}

absl::Status Check(F function, const Graph& graph,
                   const std::vector<TensorArg>& args,
                   absl::Span<const Tensor> inputs, DType dtype) {
  MTF_RETURN_IF_ERROR(internal::CheckInputs(graph, inputs));
  MTF_RETURN_IF_ERROR(internal::CheckSizes(inputs));
  std::vector<Tensor> peers;  // all that share `dtype`
  for (size_t i = 0; i < args.size(); ++i) {
    const DType wanted = OperandDType(function, i, dtype);
    if (args[i].is_number) {
      MTF_RETURN_IF_ERROR(internal::CheckHolds(wanted, args[i].number));
    } else if (function == F::kSelect && i == 0) {
      if (args[i].tensor.dtype() != kBool) {
        return absl::InvalidArgumentError(
            absl::StrCat("the condition \"", args[i].tensor.name(), "\" is ",
                         DTypeName(args[i].tensor.dtype()), ", not bool",
                         DescribeInputs(inputs)));
      }
    } else {
      peers.push_back(args[i].tensor);
    }
  }
  MTF_RETURN_IF_ERROR(internal::CheckOneDType(peers));
  return CheckDomain(function, inputs, dtype);
}

// The value of a function whose operands are all numbers.
double Fold(F function, const std::vector<Operand>& operands) {
  const auto number = [&](size_t i) {
    return i < operands.size() ? operands[i].number : 0;
  };
  if (function == F::kCast) return number(0);
  return EvaluateScalar(function, number(0), number(1), number(2));
}

// Gives constants without a dtype that of the other operands.
void AdoptDTypes(F function, std::vector<TensorArg>& args) {
  std::vector<Tensor> peers(args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    // The condition of a select is bool, unlike its other operands.
    if (args[i].is_number || (function == F::kSelect && i == 0)) continue;
    peers[i] = args[i].tensor;
  }
  internal::AdoptDType(absl::MakeSpan(peers), args[0].location);
  for (size_t i = 0; i < args.size(); ++i) {
    if (peers[i].valid()) args[i].tensor = peers[i];
  }
}

// Applies `function`. The result has the dtype of the operands unless
// `result_dtype` is given.
Tensor Apply(F function, std::vector<TensorArg> args,
             const DType* result_dtype = nullptr) {
  AdoptDTypes(function, args);
  std::vector<Tensor> inputs;
  for (const TensorArg& arg : args) {
    if (!arg.is_number) inputs.push_back(arg.tensor);
  }
  Graph* graph = internal::GraphOf(inputs);
  if (graph == nullptr) return {};
  DType dtype = kFloat32;
  // The condition of a select is bool, unlike its other operands.
  for (size_t i = function == F::kSelect ? 1 : 0; i < args.size(); ++i) {
    if (args[i].is_number || !args[i].tensor.valid()) continue;
    dtype = args[i].tensor.dtype();
    break;
  }
  const ScalarFunctionInfo& info = InfoOf(function);
  const DType result = info.is_comparison        ? kBool
                       : result_dtype != nullptr ? *result_dtype
                                                 : dtype;
  const Shape shape = internal::BroadcastShape(inputs);
  const std::source_location location = args[0].location;
  const absl::Status status = Check(function, *graph, args, inputs, dtype);
  if (!status.ok()) {
    return graph->Fail(status, info.text, location, shape, result);
  }

  std::vector<Operand> operands;
  inputs.clear();
  bool folds = true;
  for (size_t i = 0; i < args.size(); ++i) {
    Operand operand{-1, args[i].number, OperandDType(function, i, dtype)};
    if (!args[i].is_number) {
      if (const LiteralOp* literal = AsLiteral(args[i].tensor)) {
        operand.number = literal->value;
      } else {
        operand.input = static_cast<int>(inputs.size());
        inputs.push_back(args[i].tensor);
        folds = false;
      }
    }
    operands.push_back(operand);
  }
  if (folds) {
    return graph->Add(
        std::make_unique<LiteralOp>(Fold(function, operands), result),
        location);
  }
  return graph->Add(
      std::make_unique<ElementwiseOp>(function, std::move(operands),
                                      std::move(inputs), shape, result),
      location);
}

}  // namespace

#define ROW(Name, ...) \
  Tensor Name(TensorArg x) { return Apply(F::k##Name, {x}); }
MTF_UNARY_FLOAT_FUNCTIONS(ROW)
MTF_UNARY_NUMBER_FUNCTIONS(ROW)
#undef ROW

#define ROW(Name, ...) \
  Tensor Name(TensorArg x, TensorArg y) { return Apply(F::k##Name, {x, y}); }
MTF_BINARY_NUMBER_FUNCTIONS(ROW)
MTF_BINARY_FLOAT_FUNCTIONS(ROW)
MTF_COMPARISON_FUNCTIONS(ROW)
MTF_LOGICAL_FUNCTIONS(ROW)
#undef ROW

Tensor LogicalNot(TensorArg x) { return Apply(F::kLogicalNot, {x}); }

Tensor Select(TensorArg condition, TensorArg x, TensorArg y) {
  return Apply(F::kSelect, {condition, x, y});
}

Tensor Cast(Tensor x, DType dtype, std::source_location location) {
  if (x.valid() && x.dtype() == dtype) return x;
  return Apply(F::kCast, {{x, location}}, &dtype);
}

Tensor Like(Tensor x, double value, std::source_location location) {
  if (!x.valid()) return {};
  return Constant(x.graph(), value, x.dtype(), x.shape(), location);
}

Tensor AddN(std::vector<Tensor> xs, std::source_location location) {
  if (xs.empty()) return {};
  Tensor sum = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) {
    sum = Add({sum, location}, {xs[i], location});
  }
  return sum;
}

}  // namespace mtf
