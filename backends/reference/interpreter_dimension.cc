// SPDX-License-Identifier: Apache-2.0
//
// The instructions of the interpreter along one dimension: slice, pad, concat,
// gather, scatter_add, scan and top_k.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/reference/interpreter.h"
#include "backends/reference/interpreter_elements.h"
#include "backends/reference/interpreter_scalar.h"
#include "mtf/check.h"
#include "mtf/errors.h"

namespace mtf {

using oracle::ElementIterator;
using oracle::Filled;
using oracle::StrideOf;
using oracle::Strides;
using oracle::StridesOf;

Value ReferenceInterpreter::Slice(Value value, const std::string& dimension,
                                  int64_t begin, int64_t size) {
  const OracleTensor& x = Get(value);
  OracleTensor result = Filled(x.dtype, x.shape.Resized(dimension, size));
  // Iterate over the shape of the result with the strides of `x`.
  const std::vector<int64_t> strides = StridesOf(x.shape, x.shape);
  const int64_t first = begin * StrideOf(x.shape, dimension);
  int64_t i = 0;
  for (ElementIterator at(result.shape, {strides}); !at.done(); at.Next()) {
    result.data[i++] = x.data[first + at[0]];
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Pad(Value value, const std::string& dimension,
                                int64_t before, int64_t after, double fill) {
  const OracleTensor& x = Get(value);
  const int64_t size = before + x.shape.SizeOf(dimension) + after;
  OracleTensor result = Filled(x.dtype, x.shape.Resized(dimension, size), fill);
  const std::vector<int64_t> strides = StridesOf(result.shape, x.shape);
  const int64_t first = before * StrideOf(result.shape, dimension);
  int64_t i = 0;
  for (ElementIterator at(x.shape, {strides}); !at.done(); at.Next()) {
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
    const std::vector<int64_t> strides = StridesOf(result.shape, x.shape);
    const int64_t first = begin * StrideOf(result.shape, dimension);
    int64_t i = 0;
    for (ElementIterator at(x.shape, {strides}); !at.done(); at.Next()) {
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
  const OracleTensor& index_tensor = Get(indices);
  const Dimension dim{dimension, rows.shape.SizeOf(dimension)};
  if (absl::Status status = CheckIndices(index_tensor, dim); !status.ok()) {
    return Fail(std::move(status), rows.dtype, shape);
  }
  OracleTensor result = Filled(rows.dtype, shape);
  const int64_t stride = StrideOf(rows.shape, dimension);
  int64_t i = 0;
  for (ElementIterator at(shape, {Strides(rows.shape, shape),
                                  Strides(index_tensor.shape, shape)});
       !at.done(); at.Next()) {
    const auto index = static_cast<int64_t>(index_tensor.data[at[1]]);
    result.data[i++] = rows.data[at[0] + index * stride];
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::ScatterAdd(Value updates, Value indices,
                                       const std::string& dimension,
                                       const Shape& shape) {
  const OracleTensor& x = Get(updates);
  const OracleTensor& index_tensor = Get(indices);
  const Dimension dim{dimension, shape.SizeOf(dimension)};
  if (absl::Status status = CheckIndices(index_tensor, dim); !status.ok()) {
    return Fail(std::move(status), x.dtype, shape);
  }
  OracleTensor result = Filled(x.dtype, shape);
  const int64_t stride = StrideOf(shape, dimension);
  int64_t i = 0;
  for (ElementIterator at(x.shape, {Strides(shape, x.shape),
                                    Strides(index_tensor.shape, x.shape)});
       !at.done(); at.Next()) {
    const auto index = static_cast<int64_t>(index_tensor.data[at[1]]);
    result.data[at[0] + index * stride] += x.data[i++];
  }
  for (double& y : result.data) y = WrapToDType(y, result.dtype);
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Scan(ReduceKind kind, Value value,
                                 const std::string& dimension, bool exclusive,
                                 bool reverse) {
  const OracleTensor& x = Get(value);
  OracleTensor result = Filled(x.dtype, x.shape);
  const int64_t size = x.shape.SizeOf(dimension);
  const int64_t stride = StrideOf(x.shape, dimension);
  const Shape rows = x.shape.Without(dimension);
  const std::vector<int64_t> strides = StridesOf(x.shape, rows);
  for (ElementIterator at(rows, {strides}); !at.done(); at.Next()) {
    double total = oracle::StartOf(kind, x.dtype);
    for (int64_t step = 0; step < size; ++step) {
      const int64_t i = at[0] + (reverse ? size - 1 - step : step) * stride;
      if (exclusive) result.data[i] = total;
      total = WrapToDType(oracle::Reduced(kind, total, x.data[i]), x.dtype);
      if (!exclusive) result.data[i] = total;
    }
  }
  return Keep(std::move(result));
}

RankedValues ReferenceInterpreter::TopK(Value value,
                                        const std::string& dimension,
                                        const Dimension& k, bool least) {
  const OracleTensor& x = Get(value);
  const int64_t size = x.shape.SizeOf(dimension);
  const int64_t stride = StrideOf(x.shape, dimension);
  const Shape rows = x.shape.Without(dimension);
  OracleTensor values = Filled(x.dtype, rows.With(k));
  OracleTensor indices = Filled(kInt32, rows.With(k));
  const auto is_above = [](double a, double b) {
    return std::isnan(a) ? !std::isnan(b) : a > b;
  };
  const std::vector<int64_t> strides = StridesOf(x.shape, rows);
  int64_t to = 0;
  for (ElementIterator at(rows, {strides}); !at.done(); at.Next()) {
    std::vector<int64_t> order(size);
    for (int64_t i = 0; i < size; ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const double a = x.data[at[0] + i * stride];
      const double b = x.data[at[0] + j * stride];
      return least ? is_above(b, a) : is_above(a, b);
    });
    for (int64_t i = 0; i < k.size; ++i, ++to) {
      values.data[to] = x.data[at[0] + order[i] * stride];
      indices.data[to] = static_cast<double>(order[i]);
    }
  }
  const Value kept = Keep(std::move(values));
  return {kept, Keep(std::move(indices))};
}

}  // namespace mtf
