// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_EINSUM_H_
#define OPS_EINSUM_H_

#include <optional>
#include <source_location>
#include <vector>

#include "mtf/dtype.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

struct EinsumOptions {
  // Of the result; empty: that of the inputs. Of 16-bit floats also f32: sums
  // are then not rounded, nor is what devices send each other to add up.
  std::optional<DType> dtype = std::nullopt;
};

// Multiplies `inputs` and sums over every dimension that `output` leaves out.
// Dimensions meet by name, so their order in an input does not matter.
//
//   // [batch, io] x [io, hidden] -> [batch, hidden], summed over "io".
//   Tensor h = Einsum({x, w1}, {batch, hidden});
//
//   // Of bf16, but added up and returned in f32.
//   Tensor logits = Einsum({x, table}, {batch, vocab}, {.dtype = kFloat32});
//
// Every dimension of `output` occurs in some input, with one size per name, the
// inputs share a float or integer dtype, none is empty or of another graph, and
// the dtype of the result is theirs, or f32 of floats; otherwise the graph
// records kInvalidArgument as its first error, which Graph::status() and
// Session::Create return. Any number of inputs from one up; the gradient of
// each is again an einsum. No inputs, or only empty ones, give an empty Tensor.
Tensor Einsum(std::vector<Tensor> inputs, Shape output,
              EinsumOptions options = {},
              std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_EINSUM_H_
