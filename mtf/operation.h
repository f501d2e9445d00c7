// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_OPERATION_H_
#define MTF_OPERATION_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
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

// The shape and dtype of a result.
struct ResultType {
  Shape shape;
  DType dtype = kFloat32;
};

// The values that an operation emits, one for each result. Converts from the
// value of an operation with one result.
class EmittedValues : public absl::InlinedVector<Value, 1> {
 public:
  EmittedValues() = default;
  EmittedValues(Value value) { push_back(value); }
  EmittedValues(std::initializer_list<Value> values)
      : absl::InlinedVector<Value, 1>(values) {}
};

class Operation;

// Dimensions that the rules may shard over one mesh axis although they meet in
// an operation: there, those of `yielding` are not sharded over the axes of
// those of `sharded`.
struct AxisConflict {
  std::vector<std::string> yielding, sharded;
};

// An operation in terms of others, which are in a graph of their own. The
// operations of a forward operation and of its gradient can be in one graph:
// what both use is then emitted once.
struct Decomposition {
  const Graph* graph = nullptr;
  std::vector<Tensor> inputs = {};   // stand for Operation::inputs()
  std::vector<Tensor> results = {};  // stand for the results
  // The ids of the operations of `graph` that are emitted in the place of this
  // operation: those from `begin` to `end` - 1.
  int begin = 0, end = 0;

  absl::Span<const std::unique_ptr<Operation>> operations() const;
};

// A node of the graph, created by the checked factories in ops/. Its inputs
// exist before it, so the operations of a graph are in topological order. Most
// operations have one result; shape(), dtype() and name() are those of the
// first.
class Operation {
 public:
  Operation(std::vector<Tensor> inputs, Shape shape, DType dtype)
      : inputs_(std::move(inputs)) {
    results_.push_back({std::move(shape), dtype});
  }
  // With one or more results.
  Operation(std::vector<Tensor> inputs, std::vector<ResultType> results)
      : inputs_(std::move(inputs)), results_(results.begin(), results.end()) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // "einsum", "reshape": used in the text form and in default names.
  virtual absl::string_view kind() const = 0;

  // The attributes that follow the inputs in the text form, such as "begin=2",
  // or "".
  virtual std::string attributes() const { return ""; }
  // Whether `other`, of the same kind and dtype, has the same attributes, apart
  // from the numbers of random streams.
  virtual bool SameAttributes(const Operation& other) const {
    return attributes() == other.attributes();
  }

  // What a further result is called, such as "logsumexp": its name is that of
  // the operation, a dot and this.
  virtual absl::string_view ResultName(int /*index*/) const { return "result"; }

  // The gradient with respect to each input, given the gradient of each result
  // in gradient_dtype(), of which at least one is not empty; an empty Tensor
  // for an input without a gradient. Consists of operations, which have
  // gradients themselves.
  virtual std::vector<Tensor> Gradient(
      absl::Span<const Tensor> of_results) const = 0;

  // The dtype in which gradients of a result are computed and accumulated: the
  // dtype of the result, except for parameters with a gradient dtype.
  virtual DType gradient_dtype(int index) const { return dtype(index); }

  // Writes the operation as instructions of `emitter`. `inputs` are the emitted
  // values of inputs(). Returns one value per result.
  virtual EmittedValues Emit(Emitter& emitter,
                             absl::Span<const Value> inputs) const = 0;

  // OK if `emitter` has the instructions that Emit writes, else why not: the
  // operations of decomposition() are emitted in the place of this one, and of
  // all that share its graph. `read_results` has a bit for each result that
  // something reads; the last bit stands for all from the 32nd result on.
  virtual absl::Status CheckEmit(const Emitter& /*emitter*/,
                                 uint32_t /*read_results*/) const {
    return absl::OkStatus();
  }
  virtual const Decomposition* decomposition() const { return nullptr; }

  // The variable that the operation sets, or null.
  virtual const VariableInfo* AssignedVariable() const { return nullptr; }

  // Pairs of names that denote the same dimension, such as before and after a
  // rename. Their shards must line up, so they share one grain.
  virtual std::vector<std::pair<std::string, std::string>> TiedDimensions()
      const {
    return {};
  }

  // Null: none.
  const AxisConflict* axis_conflict() const { return axis_conflict_.get(); }

  const std::vector<Tensor>& inputs() const { return inputs_; }
  const Tensor& input(int i) const { return inputs_[i]; }
  int num_results() const { return static_cast<int>(results_.size()); }
  const Shape& shape(int index = 0) const { return results_[index].shape; }
  DType dtype(int index = 0) const { return results_[index].dtype; }
  // A result as a Tensor.
  Tensor result(int index = 0) const {
    return Tensor(const_cast<Operation*>(this), index);
  }

  // Set by Graph::Add.
  int id() const { return id_; }
  const std::string& name(int index = 0) const { return names_[index]; }
  const CallSite& call_site() const { return call_site_; }
  LayoutSection section() const { return section_; }
  // The number in Graph::scopes() of the scope whose rules apply: the one that
  // the operation was created in, or for a gradient that of the forward
  // operation.
  int scope() const { return scope_; }
  Graph& graph() const { return *graph_; }

 private:
  friend class Graph;
  friend class GradientScope;
  friend class Tensor;
  std::vector<Tensor> inputs_;
  absl::InlinedVector<ResultType, 1> results_;
  int id_ = -1;
  int first_tensor_ = -1;  // Tensor::id() of the first result
  absl::InlinedVector<std::string, 1> names_;  // of the results
  CallSite call_site_;
  LayoutSection section_ = LayoutSection::kDefault;
  int scope_ = 0;
  std::shared_ptr<const AxisConflict> axis_conflict_;
  Graph* graph_ = nullptr;
};

}  // namespace mtf

#endif  // MTF_OPERATION_H_
