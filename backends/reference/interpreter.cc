// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/reference/interpreter_scalar.h"
#include "mtf/check.h"
#include "mtf/errors.h"
#include "mtf/philox.h"

namespace mtf {
namespace {

OracleTensor Filled(DType dtype, const Shape& shape, double value = 0) {
  return {shape, dtype, std::vector<double>(shape.num_elements(), value)};
}

// How far apart in `tensor` the neighbours along each dimension of `space` are;
// 0 along those that `tensor` lacks.
std::vector<int64_t> Strides(const Shape& tensor, const Shape& space) {
  std::vector<int64_t> strides(space.rank(), 0);
  int64_t stride = 1;
  for (int i = tensor.rank() - 1; i >= 0; --i) {
    const int place = space.Find(tensor[i].name);
    if (place >= 0) {
      MTF_CHECK_EQ(space[place].size, tensor[i].size) << tensor[i].name;
      strides[place] = stride;
    }
    stride *= tensor[i].size;
  }
  return strides;
}

int64_t StrideOf(const Shape& tensor, const std::string& dimension) {
  int64_t stride = 1;
  for (int i = tensor.rank() - 1; tensor[i].name != dimension; --i) {
    stride *= tensor[i].size;
  }
  return stride;
}

// Walks over the elements of `space` in row-major order and says where each is
// in every one of some tensors.
class Places {
 public:
  Places(const Shape& space, std::vector<std::vector<int64_t>> strides)
      : space_(space),
        strides_(std::move(strides)),
        index_(space.rank(), 0),
        offsets_(strides_.size(), 0),
        left_(space.num_elements()) {}

  bool done() const { return left_ == 0; }
  int64_t operator[](size_t tensor) const { return offsets_[tensor]; }
  int64_t index(int dim) const { return index_[dim]; }

  void Next() {
    --left_;
    for (int d = space_.rank() - 1; d >= 0; --d) {
      const bool wraps = ++index_[d] == space_[d].size;
      const int64_t moved = wraps ? 1 - space_[d].size : 1;
      for (size_t t = 0; t < strides_.size(); ++t) {
        offsets_[t] += moved * strides_[t][d];
      }
      if (!wraps) return;
      index_[d] = 0;
    }
  }

 private:
  const Shape& space_;
  const std::vector<std::vector<int64_t>> strides_;
  std::vector<int64_t> index_;
  std::vector<int64_t> offsets_;
  int64_t left_;
};

OracleTensor InOrder(const OracleTensor& tensor, const Shape& shape) {
  OracleTensor result = Filled(tensor.dtype, shape);
  int64_t i = 0;
  for (Places at(shape, {Strides(tensor.shape, shape)}); !at.done();
       at.Next()) {
    result.data[i++] = tensor.data[at[0]];
  }
  return result;
}

double Lowest(DType dtype) {
  if (dtype == kInt32) return std::numeric_limits<int32_t>::min();
  if (dtype == kInt64) return -0x1p63;
  return -std::numeric_limits<double>::infinity();
}

double Highest(DType dtype) {
  if (dtype == kInt32) return std::numeric_limits<int32_t>::max();
  if (dtype == kInt64) return 0x1p63 - 1024;  // the last double below 2^63
  return std::numeric_limits<double>::infinity();
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
  for (Places at(shape, strides); !at.done(); at.Next()) {
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
  // The summed dimensions come last, so that a sum is finished at a time.
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
  for (Places at(space, strides); !at.done(); at.Next()) {
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
  const double start = kind == ReduceKind::kSum   ? 0
                       : kind == ReduceKind::kMax ? Lowest(x.dtype)
                                                  : Highest(x.dtype);
  OracleTensor result = Filled(x.dtype, shape, start);
  int64_t i = 0;
  for (Places at(x.shape, {Strides(shape, x.shape)}); !at.done(); at.Next()) {
    double& y = result.data[at[0]];
    const double element = x.data[i++];
    switch (kind) {
      case ReduceKind::kSum:
        y += element;
        break;
      case ReduceKind::kMax:
        y = std::isnan(element) || element > y ? element : y;
        break;
      case ReduceKind::kMin:
        y = std::isnan(element) || element < y ? element : y;
        break;
    }
  }
  for (double& y : result.data) y = WrapToDType(y, result.dtype);
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Reshape(Value value, const Shape& shape) {
  MTF_CHECK_EQ(Get(value).shape.num_elements(), shape.num_elements());
  return Keep({shape, Get(value).dtype, Get(value).data});
}

Value ReferenceInterpreter::Slice(Value value, const std::string& dimension,
                                  int64_t begin, int64_t size) {
  const OracleTensor& x = Get(value);
  OracleTensor result = Filled(x.dtype, x.shape.Resized(dimension, size));
  // In the shape of the result, `x` begins later and its dimension is cut.
  std::vector<int64_t> strides;
  for (const Dimension& dim : x.shape) {
    strides.push_back(StrideOf(x.shape, dim.name));
  }
  const int64_t first = begin * StrideOf(x.shape, dimension);
  int64_t i = 0;
  for (Places at(result.shape, {strides}); !at.done(); at.Next()) {
    result.data[i++] = x.data[first + at[0]];
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Pad(Value value, const std::string& dimension,
                                int64_t before, int64_t after, double fill) {
  const OracleTensor& x = Get(value);
  const int64_t size = before + x.shape.SizeOf(dimension) + after;
  OracleTensor result = Filled(x.dtype, x.shape.Resized(dimension, size), fill);
  std::vector<int64_t> strides;
  for (const Dimension& dim : x.shape) {
    strides.push_back(StrideOf(result.shape, dim.name));
  }
  const int64_t first = before * StrideOf(result.shape, dimension);
  int64_t i = 0;
  for (Places at(x.shape, {strides}); !at.done(); at.Next()) {
    result.data[first + at[0]] = x.data[i++];
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Concat(absl::Span<const Value> values,
                                   const std::string& dimension) {
  int64_t size = 0;
  for (Value value : values) size += Get(value).shape.SizeOf(dimension);
  const OracleTensor& head = Get(values[0]);
  OracleTensor result = Filled(head.dtype, head.shape.Resized(dimension, size));
  int64_t begin = 0;
  for (Value value : values) {
    const OracleTensor& x = Get(value);
    std::vector<int64_t> strides;
    for (const Dimension& dim : x.shape) {
      strides.push_back(StrideOf(result.shape, dim.name));
    }
    const int64_t first = begin * StrideOf(result.shape, dimension);
    int64_t i = 0;
    for (Places at(x.shape, {strides}); !at.done(); at.Next()) {
      result.data[first + at[0]] = x.data[i++];
    }
    begin += x.shape.SizeOf(dimension);
  }
  return Keep(std::move(result));
}

absl::Status ReferenceInterpreter::CheckIndices(
    const OracleTensor& indices, const Dimension& dimension) const {
  for (size_t i = 0; i < indices.data.size(); ++i) {
    const double index = indices.data[i];
    if (index >= 0 && index < static_cast<double>(dimension.size)) continue;
    MTF_CHECK(operation_ != nullptr) << "set_operation() was not called";
    return IndexOutOfRange(static_cast<int64_t>(index), static_cast<int64_t>(i),
                           indices.shape, operation_->input(1).name(),
                           dimension, operation_->kind(), operation_->name(),
                           operation_->call_site());
  }
  return absl::OkStatus();
}

Value ReferenceInterpreter::Gather(Value table, Value indices,
                                   const std::string& dimension,
                                   const Shape& shape) {
  const OracleTensor& rows = Get(table);
  const OracleTensor& places = Get(indices);
  const Dimension dim{dimension, rows.shape.SizeOf(dimension)};
  if (absl::Status status = CheckIndices(places, dim); !status.ok()) {
    return Fail(std::move(status), rows.dtype, shape);
  }
  OracleTensor result = Filled(rows.dtype, shape);
  const int64_t stride = StrideOf(rows.shape, dimension);
  int64_t i = 0;
  for (Places at(shape,
                 {Strides(rows.shape, shape), Strides(places.shape, shape)});
       !at.done(); at.Next()) {
    const auto index = static_cast<int64_t>(places.data[at[1]]);
    result.data[i++] = rows.data[at[0] + index * stride];
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::ScatterAdd(Value updates, Value indices,
                                       const std::string& dimension,
                                       const Shape& shape) {
  const OracleTensor& x = Get(updates);
  const OracleTensor& places = Get(indices);
  const Dimension dim{dimension, shape.SizeOf(dimension)};
  if (absl::Status status = CheckIndices(places, dim); !status.ok()) {
    return Fail(std::move(status), x.dtype, shape);
  }
  OracleTensor result = Filled(x.dtype, shape);
  const int64_t stride = StrideOf(shape, dimension);
  int64_t i = 0;
  for (Places at(x.shape,
                 {Strides(shape, x.shape), Strides(places.shape, x.shape)});
       !at.done(); at.Next()) {
    const auto index = static_cast<int64_t>(places.data[at[1]]);
    result.data[at[0] + index * stride] += x.data[i++];
  }
  for (double& y : result.data) y = WrapToDType(y, result.dtype);
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Scan(ReduceKind kind, Value value,
                                 const std::string& dimension, bool exclusive,
                                 bool reverse) {
  const OracleTensor& x = Get(value);
  const double start = kind == ReduceKind::kSum   ? 0
                       : kind == ReduceKind::kMax ? Lowest(x.dtype)
                                                  : Highest(x.dtype);
  OracleTensor result = Filled(x.dtype, x.shape);
  const int64_t size = x.shape.SizeOf(dimension);
  const int64_t stride = StrideOf(x.shape, dimension);
  const Shape rows = x.shape.Without(dimension);
  std::vector<int64_t> strides;
  for (const Dimension& dim : rows) {
    strides.push_back(StrideOf(x.shape, dim.name));
  }
  for (Places at(rows, {strides}); !at.done(); at.Next()) {
    double total = start;
    for (int64_t step = 0; step < size; ++step) {
      const int64_t i = at[0] + (reverse ? size - 1 - step : step) * stride;
      if (exclusive) result.data[i] = total;
      const double element = x.data[i];
      switch (kind) {
        case ReduceKind::kSum:
          total = WrapToDType(total + element, x.dtype);
          break;
        case ReduceKind::kMax:
          total = std::isnan(element) || element > total ? element : total;
          break;
        case ReduceKind::kMin:
          total = std::isnan(element) || element < total ? element : total;
          break;
      }
      if (!exclusive) result.data[i] = total;
    }
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::TopK(Value value, const std::string& dimension,
                                 const Dimension& k) {
  const OracleTensor& x = Get(value);
  const int64_t size = x.shape.SizeOf(dimension);
  const int64_t stride = StrideOf(x.shape, dimension);
  OracleTensor result = Filled(kInt32, x.shape.Without(dimension).With(k));
  const Shape rows = x.shape.Without(dimension);
  std::vector<int64_t> strides;
  for (const Dimension& dim : rows) {
    strides.push_back(StrideOf(x.shape, dim.name));
  }
  int64_t to = 0;
  for (Places at(rows, {strides}); !at.done(); at.Next()) {
    std::vector<int64_t> order(size);
    for (int64_t i = 0; i < size; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const double a = x.data[at[0] + i * stride];
      const double b = x.data[at[0] + j * stride];
      return std::isnan(a) ? !std::isnan(b) : a > b;
    });
    for (int64_t i = 0; i < k.size; ++i) {
      result.data[to++] = static_cast<double>(order[i]);
    }
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Whole(Value value, absl::Span<const std::string>) {
  return value;  // everything is whole here
}

}  // namespace mtf
