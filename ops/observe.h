// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_OBSERVE_H_
#define OPS_OBSERVE_H_

#include <cstdint>
#include <source_location>

#include "absl/strings/string_view.h"
#include "mtf/tensor.h"

namespace mtf {

// Prints the first elements of `x`, in row-major order, and returns `x`. Each
// step that computes `x` prints one line, from rank 0 (by default to stderr;
// see train::SessionOptions::on_print):
//
//   Print(gates, "gates", 3);
//
//   gates: layer_0/softmax f32[batch=4, expert=8] = 0.25 0.5 0.125 ...
//
// The elements are those of the global tensor under every layout. Only they are
// sent to rank 0, or the rows that hold them if they are several rows. Any
// dtype. `x` is computed as without the print, and so are gradients.
//
// Records kInvalidArgument in the graph if `first_n` is negative. Returns an
// empty Tensor if `x` is empty.
Tensor Print(Tensor x, absl::string_view message, int64_t first_n = 8,
             std::source_location location = std::source_location::current());

// Collects the scalar `x` under `name`, prefixed by the current scope, and
// returns `x`. After each step that computes `x`, train::Session::summaries has
// its value; the training loop writes it to the log.
//
//   ScalarSummary("gradient_norm", norm);
//
// Records in the graph kInvalidArgument if `x` is not a scalar, is bool, or
// `name` could not name a variable; kAlreadyExists if the scoped name belongs
// to another summary. Returns an empty Tensor if `x` is empty.
Tensor ScalarSummary(
    absl::string_view name, Tensor x,
    std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_OBSERVE_H_
