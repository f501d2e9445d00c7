// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_ERRORS_H_
#define MTF_ERRORS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "mtf/dimension.h"
#include "mtf/dtype.h"
#include "mtf/shape.h"
#include "mtf/status.h"
#include "mtf/tensor.h"

namespace mtf {

// A tensor as error messages show it: "f32[batch=64, hidden=2048]".
std::string DescribeTensor(DType dtype, const Shape& shape);

// The detail lines that list the inputs of an operation, to be appended to the
// first line of an error. Each begins with a line break:
//
//   inputs   h  f32[batch=64, hidden=2048]
//            w2 f32[hidden=2050, io=512]
std::string DescribeInputs(absl::Span<const Tensor> inputs);

// The last line of an error about an empty Tensor: how one is created.
inline constexpr absl::string_view kEmptyTensorHelp =
    "\n  help     calls without an input, as Einsum({}, ...), return an empty "
    "Tensor; so does Gradients() for a tensor that the loss does not depend on";

// The coordinates of the element with the row-major index `position`:
// "[batch=2, length=3]".
std::string DescribePosition(const Shape& shape, int64_t position);

// The kOutOfRange error of a gather or scatter_add, the same on every backend:
// `index`, the element `position` of the indices in row-major order, is outside
// `dimension` of the table.
//
//   index 7 at [batch=2, length=3] of "tokens" is outside dimension "vocab"
//   of size 5 (gather "embed", lm.cc:12)                        [on one line]
absl::Status IndexOutOfRange(int64_t index, int64_t position,
                             const Shape& indices_shape,
                             absl::string_view indices_name,
                             const Dimension& dimension, absl::string_view kind,
                             absl::string_view operation_name,
                             const CallSite& site);

// The kOutOfRange error of a dynamic_slice or update_slice of `rows` rows.
//
//   index 126 at [batch=2] of "position" is outside [0, 124]: 4 rows of
//   dimension "length" of size 128 begin there ("decoder/update_slice",
//   lm.cc:12)                                                  [on one line]
absl::Status RowsOutOfRange(int64_t index, int64_t position,
                            const Shape& index_shape,
                            absl::string_view index_name, int64_t rows,
                            const Dimension& dimension,
                            absl::string_view operation_name,
                            const CallSite& site);

}  // namespace mtf

#endif  // MTF_ERRORS_H_
