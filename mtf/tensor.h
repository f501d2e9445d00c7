// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_TENSOR_H_
#define MTF_TENSOR_H_

#include <source_location>
#include <string>

#include "mtf/dtype.h"
#include "mtf/shape.h"

namespace mtf {

class Graph;
class Operation;

// A symbolic result of an operation: a handle that is cheap to copy and valid
// as long as its graph. A default-constructed Tensor is empty and means "none".
class Tensor {
 public:
  Tensor() = default;
  // Result `index` of `operation`.
  explicit Tensor(Operation* operation, int index = 0)
      : operation_(operation), index_(index) {}

  bool valid() const { return operation_ != nullptr; }
  const Shape& shape() const;
  DType dtype() const;
  // The dtype in which gradients of this tensor are accumulated.
  DType gradient_dtype() const;
  // A unique name in the graph, such as "layer_0/einsum_1".
  const std::string& name() const;
  Graph& graph() const;
  Operation* operation() const { return operation_; }
  // Which result of the operation this is, and the number of this tensor among
  // all results of the graph, less than Graph::num_tensors().
  int index() const { return index_; }
  int id() const;

  // The dimension called `name`. If there is none, the graph records an error
  // and the result is a dimension of size 1.
  Dimension dim(
      absl::string_view name,
      std::source_location location = std::source_location::current()) const;

 private:
  Operation* operation_ = nullptr;
  int index_ = 0;
};

// Whether `a` and `b` are the same result of one operation, or both empty. The
// operators == and != of ops/elementwise.h compare elements.
inline bool SameTensor(const Tensor& a, const Tensor& b) {
  return a.operation() == b.operation() && a.index() == b.index();
}

}  // namespace mtf

#endif  // MTF_TENSOR_H_
