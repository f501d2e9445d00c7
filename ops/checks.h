// SPDX-License-Identifier: Apache-2.0
//
// What the factories of ops/ have in common: the checks of a user's call. Each
// returns OK or the status to hand to Graph::Fail, with the inputs listed.
#ifndef OPS_CHECKS_H_
#define OPS_CHECKS_H_

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

// The graph of the first tensor that is not empty, or null.
Graph* GraphOf(absl::Span<const Tensor> tensors);

// No input is an empty Tensor or of another graph.
absl::Status CheckInputs(const Graph& graph, absl::Span<const Tensor> inputs);

// No name has two sizes among `inputs` and, if there is one, `output`.
absl::Status CheckSizes(absl::Span<const Tensor> inputs,
                        const Shape* output = nullptr);

// All inputs have the dtype of the first.
absl::Status CheckOneDType(absl::Span<const Tensor> inputs);

// `x` has the dimension `dim`; else the nearest name is offered.
absl::Status CheckHasDimension(Tensor x, absl::string_view dim);

// `x` has every dimension of `shape`, which is valid, in the same size.
absl::Status CheckSubset(Tensor x, const Shape& shape);

// What an element of the float `dtype` makes of `value`.
float RoundTo(DType dtype, double value);

// `dtype` can hold `value`: integers hold whole numbers in their range, a bool
// holds 0 and 1, floats hold infinities, NaN and, rounded, what their largest
// number covers.
absl::Status CheckHolds(DType dtype, double value);

// The number `name`, ".beta1" or "stddev", of a call is, rounded to f32, finite
// and above 0; finite and at least 0; in [0, 1).
absl::Status CheckPositive(absl::string_view name, double value);
absl::Status CheckNotNegative(absl::string_view name, double value);
absl::Status CheckBelowOne(absl::string_view name, double value);

// `name` can name an input or a variable in the program's text.
absl::Status CheckName(absl::string_view name);

// The dimensions of the inputs broadcast by name: the longer list where one is
// an ordered subsequence of the other, else the first's, then the new ones.
Shape BroadcastShape(absl::Span<const Tensor> inputs);

// A map of one operand that changes nothing, for any dtype.
MapExpression IdentityMap(DType dtype);

// `x` with its dimensions in the order of `shape`; `x` if they are already.
Tensor InOrderOf(
    Tensor x, const Shape& shape,
    std::source_location location = std::source_location::current());

}  // namespace mtf::internal

#endif  // OPS_CHECKS_H_
