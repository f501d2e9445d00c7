// SPDX-License-Identifier: Apache-2.0
//
// The instructions of the interpreter at an index that is computed:
// dynamic_slice and update_slice.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/reference/interpreter.h"
#include "backends/reference/interpreter_elements.h"
#include "mtf/check.h"
#include "mtf/errors.h"
#include "mtf/sliced_rows.h"

namespace mtf {
namespace {

using oracle::ElementIterator;
using oracle::Filled;
using oracle::StrideOf;
using oracle::Strides;

// Calls visit(i, j) for each element i of the rows, in row-major order, with
// the element j of the value that it is taken from or replaces.
template <class Visit>
void ForEachRowElement(const OracleTensor& value, const OracleTensor& index,
                       const Shape& rows, const std::string& dimension,
                       const Visit& visit) {
  const int dim = FindRowsDimension(value.shape, rows, dimension);
  const int64_t stride = StrideOf(value.shape, dimension);
  std::vector<int64_t> strides(rows.rank(), stride);
  for (int d = 0; d < rows.rank(); ++d) {
    if (d != dim) strides[d] = StrideOf(value.shape, rows[d].name);
  }
  int64_t i = 0;
  for (ElementIterator at(rows, {strides, Strides(index.shape, rows)});
       !at.done(); at.Next()) {
    const auto first = static_cast<int64_t>(index.data[at[1]]);
    visit(i++, at[0] + first * stride);
  }
}

}  // namespace

absl::Status ReferenceInterpreter::CheckRows(const OracleTensor& index,
                                             int64_t rows,
                                             const Dimension& dimension) const {
  for (size_t i = 0; i < index.data.size(); ++i) {
    const double first = index.data[i];
    if (first >= 0 && first <= static_cast<double>(dimension.size - rows)) {
      continue;
    }
    MTF_CHECK(operation_ != nullptr) << "set_operation() was not called";
    return RowsOutOfRange(static_cast<int64_t>(first), static_cast<int64_t>(i),
                          index.shape, operation_->inputs().back().name(), rows,
                          dimension, operation_->name(),
                          operation_->call_site());
  }
  return absl::OkStatus();
}

Value ReferenceInterpreter::DynamicSlice(Value value, Value index,
                                         const std::string& dimension,
                                         const Shape& shape) {
  const OracleTensor &x = Get(value), &first = Get(index);
  absl::Status status = CheckRows(first, CountRows(x.shape, shape, dimension),
                                  {dimension, x.shape.SizeOf(dimension)});
  if (!status.ok()) return Fail(std::move(status), x.dtype, shape);
  OracleTensor result = Filled(x.dtype, shape);
  ForEachRowElement(x, first, shape, dimension,
                    [&](int64_t i, int64_t j) { result.data[i] = x.data[j]; });
  return Keep(std::move(result));
}

Value ReferenceInterpreter::UpdateSlice(Value value, Value update, Value index,
                                        const std::string& dimension) {
  const OracleTensor &x = Get(value), &rows = Get(update), &first = Get(index);
  absl::Status status =
      CheckRows(first, CountRows(x.shape, rows.shape, dimension),
                {dimension, x.shape.SizeOf(dimension)});
  if (!status.ok()) return Fail(std::move(status), x.dtype, x.shape);
  OracleTensor result = x;
  ForEachRowElement(x, first, rows.shape, dimension, [&](int64_t i, int64_t j) {
    result.data[j] = rows.data[i];
  });
  return Keep(std::move(result));
}

}  // namespace mtf
