// SPDX-License-Identifier: Apache-2.0
//
// The instructions of the interpreter that read elements of one dimension at
// other indices: shift, windows and fold_windows.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/reference/interpreter.h"
#include "backends/reference/interpreter_elements.h"
#include "backends/reference/interpreter_scalar.h"

namespace mtf {

using oracle::ElementIterator;
using oracle::Filled;
using oracle::StrideOf;

namespace {

// The index of an element in a dimension of `size`, or -1 if it has none.
int64_t Within(int64_t index, int64_t size, bool wrap) {
  if (wrap && size > 0) return (index % size + size) % size;
  return index >= 0 && index < size ? index : -1;
}

}  // namespace

Value ReferenceInterpreter::Shift(Value value, const std::string& dimension,
                                  int64_t offset, bool wrap) {
  const OracleTensor& x = Get(value);
  OracleTensor result = Filled(x.dtype, x.shape);
  const int64_t stride = StrideOf(x.shape, dimension);
  const int dim = x.shape.Find(dimension);
  int64_t i = 0;
  for (ElementIterator at(x.shape, {}); !at.done(); at.Next(), ++i) {
    const int64_t from =
        Within(at.index(dim) - offset, x.shape[dim].size, wrap);
    if (from >= 0) {
      result.data[i] = x.data[i + (from - at.index(dim)) * stride];
    }
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::Windows(Value value, const WindowSpec& spec) {
  const OracleTensor& x = Get(value);
  const int64_t size = x.shape.SizeOf(spec.dimension);
  const Shape shape =
      x.shape.Resized(spec.dimension, spec.windows).With(spec.window);
  OracleTensor result = Filled(x.dtype, shape, spec.fill);
  const int64_t stride = StrideOf(x.shape, spec.dimension);
  const int dim = shape.Find(spec.dimension);
  // Iterate over the windows with the strides of the other dimensions of `x`.
  const Shape others = x.shape.Without(spec.dimension);
  std::vector<int64_t> strides(shape.rank(), 0);
  for (const Dimension& other : others) {
    strides[shape.Find(other.name)] = StrideOf(x.shape, other.name);
  }
  int64_t i = 0;
  for (ElementIterator at(shape, {strides}); !at.done(); at.Next(), ++i) {
    const int64_t from =
        Within(at.index(dim) * spec.stride +
                   at.index(shape.rank() - 1) * spec.dilation - spec.before,
               size, spec.wrap);
    if (from >= 0) result.data[i] = x.data[at[0] + from * stride];
  }
  return Keep(std::move(result));
}

Value ReferenceInterpreter::FoldWindows(Value windows, const WindowSpec& spec,
                                        int64_t size) {
  const OracleTensor& y = Get(windows);
  const Shape shape =
      y.shape.Without(spec.window.name).Resized(spec.dimension, size);
  OracleTensor result = Filled(y.dtype, shape);
  const int64_t stride = StrideOf(shape, spec.dimension);
  const int dim = y.shape.Find(spec.dimension);
  const int window = y.shape.Find(spec.window.name);
  std::vector<int64_t> strides(y.shape.rank(), 0);
  for (const Dimension& other : shape.Without(spec.dimension)) {
    strides[y.shape.Find(other.name)] = StrideOf(shape, other.name);
  }
  int64_t i = 0;
  for (ElementIterator at(y.shape, {strides}); !at.done(); at.Next(), ++i) {
    const int64_t to =
        Within(at.index(dim) * spec.stride + at.index(window) * spec.dilation -
                   spec.before,
               size, spec.wrap);
    if (to >= 0) result.data[at[0] + to * stride] += y.data[i];
  }
  for (double& x : result.data) x = WrapToDType(x, result.dtype);
  return Keep(std::move(result));
}

}  // namespace mtf
