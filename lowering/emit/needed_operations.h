// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EMIT_NEEDED_OPERATIONS_H_
#define LOWERING_EMIT_NEEDED_OPERATIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "mtf/emitter.h"
#include "mtf/graph.h"

namespace mtf {

// The operations that a program emits, in order, and their values. Operations
// that the emitter has no instruction for are replaced by those of their
// decomposition, and so are all that share its graph: the gradient of a
// composed attention reads the weights of the composed attention.
class NeededOperations {
 public:
  using CheckEmit = absl::FunctionRef<absl::Status(const Operation& operation,
                                                   uint32_t read_results)>;
  struct Item {
    const Operation* operation = nullptr;
    // By result: whether anything reads it. Always set for an operation of a
    // decomposition.
    uint32_t read_results = ~uint32_t{0};
    // The position: the id of the operation in `graph`, and that within its
    // decomposition, or -1.
    int outer = -1, inner = -1;
  };

  // Finds what `roots` depend on. Visits only that: few operations of a deep
  // model may be needed. `representatives` maps the id of each operation to
  // that of an equal one, which is emitted in its place; empty: to itself.
  // `check` is Operation::CheckEmit for the emitter.
  NeededOperations(const Graph& graph, const std::vector<Tensor>& roots,
                   absl::Span<const int> representatives, CheckEmit check);

  // In the order of `graph`.
  const std::vector<Item>& items() const { return items_; }

  // An operation that was replaced because the emitter has no instruction for
  // it, or for another one that shares its decomposition.
  struct Replaced {
    const Operation* operation = nullptr;  // the first of those that share it
    std::string why;
  };
  const std::vector<Replaced>& replaced() const { return replaced_; }

  // The emitted value of a tensor of `graph` or of a decomposition.
  Value ValueOf(const Tensor& tensor) const;
  void SetValues(const Item& item, EmittedValues values);

 private:
  // The operations of one graph of decompositions.
  struct Composed {
    // By id of a placeholder: the tensor of `graph` that it stands for.
    std::vector<Tensor> inputs;
    std::vector<int> owner;  // by id: the operation of `graph`, or -1
    std::vector<bool> is_needed;
    std::vector<EmittedValues> values;
  };

  void Find(const std::vector<Tensor>& roots);
  // Sets `replaced_` for the operations that were found. Returns false if there
  // are none to replace.
  bool FindReplaced();

  bool IsOuter(const Tensor& tensor) const {
    // Only decompositions have other tensors, and most programs have none.
    return composed_.empty() || &tensor.graph() == &graph_;
  }
  const Operation& Representative(const Tensor& tensor) const;
  // The tensor of a decomposition that `tensor` of `graph` is replaced by, or
  // an empty one.
  Tensor ReplacedBy(const Tensor& tensor) const;
  void Add(const Tensor& tensor);
  void AddOuter(const Tensor& tensor);
  void AddComposed(const Tensor& tensor);
  // Makes the decomposition of an operation known.
  void Register(const Operation& operation);

  const Graph& graph_;
  const absl::Span<const int> representatives_;
  const CheckEmit check_;               // valid in the constructor
  std::vector<uint32_t> read_results_;  // by operation of `graph`
  std::vector<EmittedValues> values_;   // by operation of `graph`
  std::map<const Graph*, Composed> composed_;
  std::vector<Replaced> replaced_;
  absl::flat_hash_set<const Graph*> replaces_;  // graphs of decompositions
  std::vector<Item> items_;
  std::vector<Tensor> open_;  // found, but not their inputs
};

}  // namespace mtf

#endif  // LOWERING_EMIT_NEEDED_OPERATIONS_H_
