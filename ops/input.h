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

// What every step is fed under `name`, whatever the scope: a tensor of `shape`
// and `dtype`.
//
//   Tensor tokens = Input(graph, "tokens", kInt32, {batch, length});
//
// The graph records, as its first error, which Graph::status() and
// Session::Create return: kAlreadyExists for a second input of the name,
// kInvalidArgument for a name that is empty, not made of letters, digits and
// "_-./", or has an empty part between "/"s, and for a shape that
// Shape::Validate refuses.
Tensor Input(Graph& graph, absl::string_view name, DType dtype, Shape shape,
             std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_INPUT_H_
