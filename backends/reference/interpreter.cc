// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/interpreter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/reference/interpreter_elements.h"
#include "backends/reference/interpreter_scalar.h"
#include "mtf/check.h"
#include "mtf/errors.h"
#include "mtf/philox.h"

namespace mtf {

using oracle::ElementIterator;
using oracle::Filled;
using oracle::Strides;

namespace {

OracleTensor InOrder(const OracleTensor& tensor, const Shape& shape) {
  OracleTensor result = Filled(tensor.dtype, shape);
  int64_t i = 0;
  for (ElementIterator at(shape, {Strides(tensor.shape, shape)}); !at.done();
       at.Next()) {
    result.data[i++] = tensor.data[at[0]];
  }
  return result;
}

}  // namespace

Value ReferenceInterpreter::Keep(OracleTensor tensor) {
  values_.push_back(std::move(tensor));
  return {static_cast<int>(values_.size()) - 1};
}

Value ReferenceInterpreter::Fail(absl::Status status, DType dtype,
                                 const Shape& shape) {
  if (status_.ok()) status_ = std::move(status);
  return Keep(Filled(dtype, shape));
}

Value ReferenceInterpreter::Input(const std::string& name, DType dtype,
                                  const Shape& shape) {
  const auto feed = feeds_.find(name);
  const std::string input = absl::StrCat("input \"", name, "\"");
  const std::string site =
      operation_ == nullptr
          ? ""
          : absl::StrCat(" (input, ", operation_->call_site().ToString(), ")");
  if (feed == feeds_.end()) {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat(
            input, " ", DescribeTensor(dtype, shape), " is not fed", site)),
        dtype, shape);
  }
  const HostTensor& tensor = feed->second;
  if (tensor.shape() != shape || tensor.dtype() != dtype) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
                    input, " is ", DescribeTensor(dtype, shape), " but is fed ",
                    DescribeTensor(tensor.dtype(), tensor.shape()), site)),
                dtype, shape);
  }
  return Keep({shape, dtype, tensor.ToDoubles()});
}

Value ReferenceInterpreter::ReadVariable(const VariableInfo& variable) {
  if (variables_ != nullptr) {
    const auto found = variables_->find(variable.name);
    if (found != variables_->end()) return Keep(found->second);
  }
  return Fail(absl::FailedPreconditionError(absl::StrCat(
                  "variable \"", variable.name, "\" (",
                  variable.call_site.ToString(), ") has no value yet")),
              variable.dtype, variable.shape);
}

Value ReferenceInterpreter::WriteVariable(const VariableInfo& variable,
                                          Value value) {
  const bool first =
      writes_.emplace(variable.name, InOrder(Get(value), variable.shape))
          .second;
  if (first) return value;
  return Fail(
      absl::InvalidArgumentError(absl::StrCat(
          "variable \"", variable.name, "\" is assigned twice in one step")),
      variable.dtype, variable.shape);
}

Value ReferenceInterpreter::Constant(std::vector<double> data, DType dtype,
                                     const Shape& shape) {
  MTF_CHECK_EQ(static_cast<int64_t>(data.size()), shape.num_elements());
  return Keep({shape, dtype, std::move(data)});
}

Value ReferenceInterpreter::Random(RandomKind kind, uint32_t stream,
                                   bool per_step, DType dtype,
                                   const Shape& shape) {
  OracleTensor result = Filled(dtype, shape);
  for (size_t i = 0; i < result.data.size(); ++i) {
    const PhiloxWords words =
        PhiloxAt(options_.seed, stream, per_step ? options_.step : 0, i);
    result.data[i] = kind == RandomKind::kUniform
                         ? UniformFromWord(words.word[0])
                         : NormalFromWords(words);
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Map(const MapExpression& expression,
                                absl::Span<const Value> operands,
                                const Shape& shape) {
  MTF_CHECK_EQ(static_cast<int>(operands.size()), expression.num_operands);
  std::vector<std::vector<int64_t>> strides;
  std::vector<DType> dtypes;  // of operands, then of steps
  for (Value operand : operands) {
    for (const Dimension& dim : Get(operand).shape) {
      MTF_CHECK(shape.Contains(dim.name)) << dim.name;
    }
    strides.push_back(Strides(Get(operand).shape, shape));
    dtypes.push_back(Get(operand).dtype);
  }
  for (const MapStep& step : expression.steps) dtypes.push_back(step.dtype);
  OracleTensor result = Filled(expression.result_dtype(), shape);
  std::vector<double> numbers(operands.size() + expression.steps.size());
  int64_t i = 0;
  for (ElementIterator at(shape, strides); !at.done(); at.Next()) {
    for (size_t k = 0; k < operands.size(); ++k) {
      numbers[k] = Get(operands[k]).data[at[k]];
    }
    size_t next = operands.size();
    for (const MapStep& step : expression.steps) {
      if (step.function == ScalarFunction::kIota) {
        numbers[next++] =
            static_cast<double>(at.index(shape.Find(step.dimension)));
      } else {
        numbers[next++] = EvaluateStep(step, numbers, dtypes);
      }
    }
    result.data[i++] = numbers.back();
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Einsum(absl::Span<const Value> operands,
                                   const Shape& shape, DType dtype) {
  // Summed dimensions come last, so that one sum is completed after another.
  Shape space = shape;
  for (Value operand : operands) {
    for (const Dimension& dim : Get(operand).shape) {
      if (!space.Contains(dim.name)) space = space.With(dim);
    }
  }
  std::vector<std::vector<int64_t>> strides = {Strides(shape, space)};
  for (Value operand : operands) {
    strides.push_back(Strides(Get(operand).shape, space));
  }
  OracleTensor result = Filled(dtype, shape);
  for (ElementIterator at(space, strides); !at.done(); at.Next()) {
    double product = 1;
    for (size_t k = 0; k < operands.size(); ++k) {
      product *= Get(operands[k]).data[at[k + 1]];
    }
    result.data[at[0]] += product;
  }
  for (double& x : result.data) x = WrapToDType(x, result.dtype);
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Reduce(ReduceKind kind, Value value,
                                   const Shape& shape) {
  const OracleTensor& x = Get(value);
  OracleTensor result = Filled(x.dtype, shape, oracle::StartOf(kind, x.dtype));
  int64_t i = 0;
  for (ElementIterator at(x.shape, {Strides(shape, x.shape)}); !at.done();
       at.Next()) {
    double& y = result.data[at[0]];
    y = oracle::Reduced(kind, y, x.data[i++]);
  }
  for (double& y : result.data) y = WrapToDType(y, result.dtype);
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Reshape(Value value, const Shape& shape) {
  MTF_CHECK_EQ(Get(value).shape.num_elements(), shape.num_elements());
  return Keep({shape, Get(value).dtype, Get(value).data});
}

Value ReferenceInterpreter::Depend(Value value, absl::Span<const Value>) {
  return value;  // nothing depends on the order
}

Value ReferenceInterpreter::Unshard(Value value,
                                    absl::Span<const std::string>) {
  return value;  // the oracle shards nothing
}

}  // namespace mtf
