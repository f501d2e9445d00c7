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

// The symbolic result of an operation: a handle, cheap to copy, valid as long
// as its graph. A default-constructed Tensor stands for "none".
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Operation* operation) : operation_(operation) {}

  bool valid() const { return operation_ != nullptr; }
  const Shape& shape() const;
  DType dtype() const;
  // Unique in its graph, "layer_0/einsum_1".
  const std::string& name() const;
  Graph& graph() const;
  Operation* operation() const { return operation_; }

  // The dimension called `name`; when there is none the graph records the
  // error and a dimension of size 1 comes back.
  Dimension dim(
      absl::string_view name,
      std::source_location location = std::source_location::current()) const;

  friend bool operator==(const Tensor& a, const Tensor& b) {
    return a.operation_ == b.operation_;
  }

 private:
  Operation* operation_ = nullptr;
};

}  // namespace mtf

#endif  // MTF_TENSOR_H_
