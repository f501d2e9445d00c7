// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_OPERATION_H_
#define MTF_OPERATION_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mtf/emitter.h"
#include "mtf/status.h"
#include "mtf/tensor.h"

namespace mtf {

class Graph;
struct VariableInfo;

// The section of a layout whose rules apply to the result of an operation: the
// default section, or [optimizer] for the arithmetic of an update.
enum class LayoutSection : uint8_t { kDefault, kOptimizer };

// A node of the graph, created by the checked factories in ops/. Its inputs
// exist before it, so the operations of a graph are in topological order.
class Operation {
 public:
  Operation(std::vector<Tensor> inputs, Shape shape, DType dtype)
      : inputs_(std::move(inputs)), shape_(std::move(shape)), dtype_(dtype) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // "einsum", "reshape": used in the text form and in default names.
  virtual absl::string_view kind() const = 0;

  // The attributes that follow the inputs in the text form, such as "begin=2",
  // or "".
  virtual std::string attributes() const { return ""; }
  // Whether `other`, of the same kind and dtype, has the same attributes.
  virtual bool SameAttributes(const Operation& other) const {
    return attributes() == other.attributes();
  }

  // The gradient with respect to each input, given the gradient `dy` of the
  // result in gradient_dtype(); an empty Tensor for an input without a
  // gradient. Consists of operations, which have gradients themselves.
  virtual std::vector<Tensor> Gradient(Tensor dy) const = 0;

  // The dtype in which gradients of the result are computed and accumulated:
  // the dtype of the result, except for parameters with a gradient dtype.
  virtual DType gradient_dtype() const { return dtype_; }

  // Writes the operation as instructions of `emitter`. `inputs` are the emitted
  // values of inputs().
  virtual Value Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const = 0;

  // The variable that the operation sets, or null.
  virtual const VariableInfo* AssignedVariable() const { return nullptr; }

  // Pairs of names that denote the same dimension, such as before and after a
  // rename. Their shards must line up, so they share one grain.
  virtual std::vector<std::pair<std::string, std::string>> TiedDimensions()
      const {
    return {};
  }

  // Pairs {second, first} where the operation gives the dimension `first` the
  // second name `second`. A layout may have a rule of its own for the second
  // name; without one, the rules of `first` apply.
  virtual std::vector<std::pair<std::string, std::string>> SecondNames() const {
    return {};
  }

  const std::vector<Tensor>& inputs() const { return inputs_; }
  const Tensor& input(int i) const { return inputs_[i]; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  // This operation as a Tensor.
  Tensor result() const { return Tensor(const_cast<Operation*>(this)); }

  // Set by Graph::Add.
  int id() const { return id_; }
  const std::string& name() const { return name_; }
  const CallSite& call_site() const { return call_site_; }
  LayoutSection section() const { return section_; }
  Graph& graph() const { return *graph_; }

 private:
  friend class Graph;
  std::vector<Tensor> inputs_;
  Shape shape_;
  DType dtype_;
  int id_ = -1;
  std::string name_;
  CallSite call_site_;
  LayoutSection section_ = LayoutSection::kDefault;
  Graph* graph_ = nullptr;
};

}  // namespace mtf

#endif  // MTF_OPERATION_H_
