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
  bool trainable = true;
  // What the variable rests in, is read in and sent in; empty: the dtype of
  // `initial_value`. Optimizers keep what is rounded away: a master copy in the
  // dtype of `initial_value`.
  std::optional<DType> dtype = std::nullopt;
  // What its gradients are made in and added up in; empty: that of each use.
  std::optional<DType> gradient_dtype = std::nullopt;
  // Of optimizer state: the variable whose master copy this is.
  Tensor master_of = Tensor();
};

// Makes a tensor that outlives a step, of the shape and dtype of
// `initial_value`, and returns its value when a step begins. `initial_value` is
// computed once, before the first step, so it depends on no Input and on no
// other variable. The name gets the present scope's prefix.
//
//   Tensor w = Variable(graph, "w",
//                       RandomNormal(graph, {io, hidden}, 0, 0.02));
//
// Layers make their parameters of the dtypes of a PrecisionScope; so does
//
//   Tensor w = Variable(graph, "w", RandomNormal(graph, {io, hidden}, 0, 0.02),
//                       {.dtype = kBFloat16, .gradient_dtype = kFloat32});
//
// The graph records, as its first error, which Graph::status() and
// Session::Create return: kAlreadyExists for a second variable of the name with
// its prefix, kInvalidArgument for a name that is empty, not made of letters,
// digits and "_-./", or has an empty part between "/"s, and for an initial
// value that is empty, of another graph, or depends on an Input, a variable or
// an Assign; for a `dtype` that cannot be rounded from that of the initial
// value, a `gradient_dtype` that is no float, and a `master_of` that is no
// variable with something rounded away or has a master copy already.
Tensor Variable(
    Graph& graph, absl::string_view name, Tensor initial_value,
    VariableOptions options = {},
    std::source_location location = std::source_location::current());

// Gives `variable`, a tensor that Variable() returned, a `value` when the step
// ends: reads in the same step still see the old one. `value` has the same
// dimensions, in any order, and dtype. Runs in the steps that fetch the result,
// which is the new value, or something made from it.
//
//   Tensor next = Assign(count, count + 1.0);
//
// kInvalidArgument for what is no variable, a value of other dimensions or
// another dtype, and one tensor that is empty or of another graph; when it is
// lowered, also for a step that assigns one variable twice. Two empty Tensors
// give an empty Tensor.
Tensor Assign(Tensor variable, Tensor value,
              std::source_location location = std::source_location::current());

// A scalar f32 0 that stands for all `tensors`, any number of any shape: a step
// that fetches it computes them, above all the assignments of a training step.
// kInvalidArgument for a tensor that is empty or of another graph.
Tensor Group(Graph& graph, std::vector<Tensor> tensors,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_VARIABLE_H_
