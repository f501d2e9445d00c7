// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_VARIABLE_H_
#define OPS_VARIABLE_H_

#include <optional>
#include <source_location>
#include <vector>

#include "absl/strings/string_view.h"
#include "mtf/graph.h"
#include "mtf/tensor.h"

namespace mtf {

struct VariableOptions {
  VariableKind kind = VariableKind::kParameter;
  bool trainable = true;  // has no effect on state (VariableKind::kState)
  // The dtype in which the variable is stored, read and communicated. Empty:
  // the dtype of `initial_value`. If it is narrower, optimizers keep a master
  // copy in the dtype of `initial_value`.
  std::optional<DType> dtype = std::nullopt;
  // The dtype in which its gradients are computed and accumulated. Empty: the
  // dtype of each use.
  std::optional<DType> gradient_dtype = std::nullopt;
  KernelDims kernel = {};
  // For optimizer state that is a master copy: the variable it belongs to.
  Tensor master_of = Tensor();
};

// Creates a variable, a tensor whose value persists between steps, with the
// shape of `initial_value`. Returns its value at the beginning of the step.
// `initial_value` is computed once, before the first step; it must not depend
// on an Input or on another variable. The current scope prefixes the name. In a
// scope that is reused (Scope::kReuse), returns the variable that exists.
//
//   Tensor w = Variable(graph, "w",
//                       RandomNormal(graph, {io, hidden}, 0, 0.02));
//
// Layers take the dtypes of their parameters from the PrecisionScope. Without a
// layer:
//
//   Tensor w = Variable(graph, "w", RandomNormal(graph, {io, hidden}, 0, 0.02),
//                       {.dtype = kBFloat16, .gradient_dtype = kFloat32});
//
// Records in the graph:
//   kAlreadyExists    the scoped name belongs to another variable
//   kInvalidArgument  the name is empty, has other characters than letters,
//                     digits and "_-./", or has an empty component between
//                     slashes; `initial_value` is empty, belongs to another
//                     graph, or depends on an Input, a variable or an Assign;
//                     `dtype` is not the dtype of `initial_value` or a float it
//                     can be rounded to; `gradient_dtype` is not a float;
//                     `kernel` has a negative number, or more dimensions than
//                     the shape; `master_of` is not a variable with a rounded
//                     initial value, or already has a master copy
Tensor Variable(
    Graph& graph, absl::string_view name, Tensor initial_value,
    VariableOptions options = {},
    std::source_location location = std::source_location::current());

// Creates a variable of the kind kState: state of the computation that a
// session keeps from step to step, such as a cache of keys and values or the
// next position. Layouts treat it as an activation: the rules of the scope in
// which it is made apply. It is not trained, optimizers leave it alone, and
// SavedState leaves it out. Read it as the result, set it with Assign(), and
// change some of its rows in place with UpdateSlice (ops/dynamic_slice.h).
// Errors are those of Variable().
//
//   Tensor position = StateVariable(graph, "position",
//                                   Zeros(graph, kInt32, {batch}));
Tensor StateVariable(
    Graph& graph, absl::string_view name, Tensor initial_value,
    std::source_location location = std::source_location::current());
// As above, with zeros as the initial value.
Tensor StateVariable(
    Graph& graph, absl::string_view name, DType dtype, Shape shape,
    std::source_location location = std::source_location::current());

// Sets `variable`, a result of Variable(), to `value` at the end of the step.
// Reads in the same step return the old value. `value` has the dimensions of
// the variable, in any order, and its dtype. The assignment happens in the
// steps that fetch the result, which is `value`, or a tensor that depends on
// it.
//
//   Tensor next = Assign(count, count + 1.0);
//
// Records kInvalidArgument in the graph if `variable` is not a variable,
// `value` has other dimensions or another dtype, or one of the two is empty or
// belongs to another graph. A step that assigns a variable twice is an error of
// Lower. Returns an empty Tensor if both are empty.
Tensor Assign(Tensor variable, Tensor value,
              std::source_location location = std::source_location::current());

// Assign of variable + value and of variable - value. Errors are those of
// Assign and Add.
//
//   Tensor next = AssignAdd(count, Constant(graph, 1));
Tensor AssignAdd(
    Tensor variable, Tensor value,
    std::source_location location = std::source_location::current());
Tensor AssignSub(
    Tensor variable, Tensor value,
    std::source_location location = std::source_location::current());

// A scalar f32 0 that depends on all `tensors`: a step that fetches it computes
// them. Used to group the assignments of a training step. Records
// kInvalidArgument in the graph if a tensor is empty or belongs to another
// graph.
Tensor Group(Graph& graph, std::vector<Tensor> tensors,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_VARIABLE_H_
