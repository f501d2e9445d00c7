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

// A tensor that each step is fed under `name`. The scope does not prefix the
// name.
//
//   Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
//
// Records in the graph: kAlreadyExists for a second input of the same name;
// kInvalidArgument if the name is empty, has other characters than letters,
// digits and "_-./", or has an empty component between slashes, or if
// Shape::Validate rejects `shape`.
Tensor Input(Graph& graph, absl::string_view name, DType dtype, Shape shape,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_INPUT_H_
