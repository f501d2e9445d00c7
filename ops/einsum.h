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
  // The dtype of the result. Empty: the dtype of the inputs. For inputs of
  // 16-bit floats it may be kFloat32: then neither sums nor the partial sums
  // that devices all_reduce are rounded to 16 bits.
  std::optional<DType> dtype = std::nullopt;
};

// Multiplies `inputs` and sums over every dimension that `output` leaves out.
// Dimensions are matched by name, so their order in an input does not matter.
//
//   // [batch, io] x [io, hidden] -> [batch, hidden], summed over "io".
//   Tensor h = Einsum({x, w1}, {batch, hidden});
//
//   // Inputs in bf16; sums and result in f32.
//   Tensor logits = Einsum({x, table}, {batch, vocab}, {.dtype = kFloat32});
//
// There may be any number of inputs. They have the same float or integer dtype.
// The gradient of each input is an einsum. Returns an empty Tensor if there are
// no inputs or all are empty.
//
// Records kInvalidArgument in the graph if a dimension of `output` occurs in no
// input, a name has two sizes, the dtypes differ or are bool, an input is empty
// or belongs to another graph, or `options.dtype` is neither the dtype of the
// inputs nor kFloat32 for floats.
Tensor Einsum(std::vector<Tensor> inputs, Shape output,
              EinsumOptions options = {},
              std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_EINSUM_H_
