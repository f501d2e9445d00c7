// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_INPUT_H_
#define OPS_INPUT_H_

#include <source_location>
#include <string>

#include "absl/strings/string_view.h"
#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

// What every step is fed under `name`, whatever the scope. Two inputs of one
// name in a graph are kAlreadyExists.
//
//   Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
Tensor Input(Graph& graph, absl::string_view name, DType dtype, Shape shape,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_INPUT_H_
