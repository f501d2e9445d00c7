// SPDX-License-Identifier: Apache-2.0
//
// How the interpreter walks over elements of tensors. Private to it.
#ifndef BACKENDS_REFERENCE_INTERPRETER_PLACES_H_
#define BACKENDS_REFERENCE_INTERPRETER_PLACES_H_

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

// A tensor that is `value` everywhere.
OracleTensor Filled(DType dtype, const Shape& shape, double value = 0);

// How far apart in `tensor` the neighbours along each dimension of `space` are;
// 0 along those that `tensor` lacks.
std::vector<int64_t> Strides(const Shape& tensor, const Shape& space);

// How far apart in `tensor` the neighbours along `dimension` are.
int64_t StrideOf(const Shape& tensor, const std::string& dimension);

// The same along each of `dims`, in their order.
std::vector<int64_t> StridesOf(const Shape& tensor, const Shape& dims);

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

// What a reduction of `kind` over nothing gives, as numbers of `dtype` go.
double StartOf(ReduceKind kind, DType dtype);

// One element more of a reduction of `kind`; a NaN among them stays.
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

#endif  // BACKENDS_REFERENCE_INTERPRETER_PLACES_H_
