// SPDX-License-Identifier: Apache-2.0
//
// Iteration over the elements of tensors. Private to the interpreter.
#ifndef BACKENDS_REFERENCE_INTERPRETER_ELEMENTS_H_
#define BACKENDS_REFERENCE_INTERPRETER_ELEMENTS_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/reference/interpreter.h"
#include "mtf/dtype.h"
#include "mtf/emitter.h"
#include "mtf/shape.h"

namespace mtf::oracle {

// A tensor with all elements equal to `value`.
OracleTensor Filled(DType dtype, const Shape& shape, double value = 0);

// The strides of `tensor` along each dimension of `space`; 0 for dimensions
// that `tensor` lacks.
std::vector<int64_t> Strides(const Shape& tensor, const Shape& space);

// The stride of `tensor` along `dimension`.
int64_t StrideOf(const Shape& tensor, const std::string& dimension);

// The strides of `tensor` along each of `dims`, all of which it has.
std::vector<int64_t> StridesOf(const Shape& tensor, const Shape& dims);

// Iterates over the elements of `space` in row-major order. operator[] is the
// offset of the current element in each of several tensors, given by strides.
class ElementIterator {
 public:
  ElementIterator(const Shape& space, std::vector<std::vector<int64_t>> strides)
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

// The result of a reduction of `kind` over no elements.
double StartOf(ReduceKind kind, DType dtype);

// One step of a reduction of `kind`; NaN propagates.
inline double Reduced(ReduceKind kind, double sum, double element) {
  switch (kind) {
    case ReduceKind::kSum:
      return sum + element;
    case ReduceKind::kMax:
      return std::isnan(element) || element > sum ? element : sum;
    default:
      return std::isnan(element) || element < sum ? element : sum;
  }
}

}  // namespace mtf::oracle

#endif  // BACKENDS_REFERENCE_INTERPRETER_ELEMENTS_H_
