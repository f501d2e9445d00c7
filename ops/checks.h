// SPDX-License-Identifier: Apache-2.0
//
// Checks of a user's call, shared by the factories of ops/. Each returns OK or
// the Status to pass to Graph::Fail, which lists the inputs. Not for users.
#ifndef OPS_CHECKS_H_
#define OPS_CHECKS_H_

#include <source_location>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/map_expression.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::internal {

// The graph of the first non-empty tensor, or null.
Graph* GraphOf(absl::Span<const Tensor> tensors);

// Checks that no input is empty or belongs to another graph.
absl::Status CheckInputs(const Graph& graph, absl::Span<const Tensor> inputs);

// Checks that each name has one size among `inputs` and `output`.
absl::Status CheckSizes(absl::Span<const Tensor> inputs,
                        const Shape* output = nullptr);

// Checks that `x` has the dimensions of `first` in the same sizes, in any order
// and not counting `except`. The error names the dimension that differs.
absl::Status CheckSameDimensions(Tensor first, Tensor x,
                                 absl::Span<const Tensor> inputs,
                                 absl::string_view except = "");

// Gives each constant without a dtype among `tensors` the dtype of the first
// other tensor, if there is one. Empty tensors are skipped.
void AdoptDType(absl::Span<Tensor> tensors, std::source_location location);

// Checks that all inputs have the dtype of the first.
absl::Status CheckOneDType(absl::Span<const Tensor> inputs);

// Checks that `x` has a float or integer dtype. Errors call the operation
// `what`: "top_k takes a float or integer dtype, not bool".
absl::Status CheckNumber(Tensor x, absl::string_view what);

// Checks that `indices` are i32 or i64. Errors list `inputs`.
absl::Status CheckIndexDType(Tensor indices, absl::Span<const Tensor> inputs);

// Checks that `x` has the dimension `dim`. The error suggests the nearest name.
absl::Status CheckHasDimension(Tensor x, absl::string_view dim);

// Checks that `x`, an operand of attention, lacks the length `name` of the
// other `side`, the queries or the memory.
absl::Status CheckLacksLength(Tensor x, absl::string_view name,
                              absl::string_view side);

// Checks that `shape` is valid and that `x` has each of its dimensions, in the
// same size.
absl::Status CheckSubset(Tensor x, const Shape& shape);

// Checks that `dtype` can represent `value`: an integer represents the integers
// in its range; a bool 0 and 1; a float infinities, NaN, and numbers up to its
// largest, which it may round.
absl::Status CheckHolds(DType dtype, double value);

// Check the argument or option `name` of a call, such as ".beta1" or "stddev",
// after rounding to f32: positive and finite; not negative and finite; in
// [0, 1).
absl::Status CheckPositive(absl::string_view name, double value);
absl::Status CheckNotNegative(absl::string_view name, double value);
absl::Status CheckBelowOne(absl::string_view name, double value);

// Checks that `name` can name an input or a variable in program texts.
absl::Status CheckName(absl::string_view name);

// The dimensions of the inputs, broadcast by name. Of two inputs, if the
// dimensions of one are an ordered subsequence of the other's, the longer list;
// otherwise the dimensions of the first, then the new ones of the second.
Shape BroadcastShape(absl::Span<const Tensor> inputs);

// The identity function of one operand, for any dtype.
MapExpression IdentityMap(DType dtype);

// `x` with its dimensions in the order of `shape`; `x` itself if they are in
// that order.
Tensor InOrderOf(
    Tensor x, const Shape& shape,
    std::source_location location = std::source_location::current());

}  // namespace mtf::internal

#endif  // OPS_CHECKS_H_
