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

// Which section of a layout file rules the results of an operation: the
// default one, or [optimizer] for the arithmetic of an update.
enum class LayoutSection : uint8_t { kDefault, kOptimizer };

// A node of the graph, made by the checked factories in ops/. Its inputs were
// made before it, so the order of a graph's operations is topological.
class Operation {
 public:
  Operation(std::vector<Tensor> inputs, Shape shape, DType dtype)
      : inputs_(std::move(inputs)), shape_(std::move(shape)), dtype_(dtype) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // "einsum", "reshape": the word of the text form and of default names.
  virtual absl::string_view kind() const = 0;

  // What the text form says behind the inputs: "sum", "begin=2". May be "".
  virtual std::string attributes() const { return ""; }
  // Whether those of `other`, of the same kind and dtype, are the same.
  virtual bool SameAttributes(const Operation& other) const {
    return attributes() == other.attributes();
  }

  // The gradient for each input, given the gradient `dy` of the result, which
  // is of gradient_dtype(); an invalid Tensor where nothing flows. Built from
  // operations, so it has gradients itself.
  virtual std::vector<Tensor> Gradient(Tensor dy) const = 0;

  // The dtype in which the gradients of the result are made and added up: its
  // own, but for a parameter that was given another.
  virtual DType gradient_dtype() const { return dtype_; }

  // Writes the operation in the instructions of `emitter`; `inputs` are the
  // emitted values of inputs().
  virtual Value Emit(Emitter& emitter,
                     absl::Span<const Value> inputs) const = 0;

  // Pairs of names that are one dimension under two names (a rename), whose
  // shards must line up.
  virtual std::vector<std::pair<std::string, std::string>> TiedDimensions()
      const {
    return {};
  }

  // Pairs {second, first}: this operation gives a dimension a second name,
  // under which a layout may cut it in another way. Under a layout without a
  // rule for the second name, it is the first.
  virtual std::vector<std::pair<std::string, std::string>> SecondNames() const {
    return {};
  }

  const std::vector<Tensor>& inputs() const { return inputs_; }
  const Tensor& input(int i) const { return inputs_[i]; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  // This operation as a Tensor.
  Tensor result() const { return Tensor(const_cast<Operation*>(this)); }

  // Filled in by Graph::Add.
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
