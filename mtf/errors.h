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

// "f32[batch=64, hidden=2048]": a tensor as errors show it.
std::string DescribeTensor(DType dtype, const Shape& shape);

// The detail lines behind an error's first line, each after a line break:
//
//   inputs   h  f32[batch=64, hidden=2048]
//            w2 f32[hidden=2050, io=512]
std::string DescribeInputs(absl::Span<const Tensor> inputs);

// The last line of an error about an empty Tensor: where those come from.
inline constexpr absl::string_view kEmptyTensorHelp =
    "\n  help     Einsum({}, ...) and the like, given no tensor, return an "
    "empty one; Gradients() does where nothing flows";

// "[batch=2, length=3]": the place of element `position`, counted row-major.
std::string DescribePosition(const Shape& shape, int64_t position);

// The kOutOfRange with which a gather or scatter_add ends a step, the same on
// every backend: `index`, found at row-major `position` of the indices, lies
// outside `dimension` of the table.
//
//   index 7 at [batch=2, length=3] of "tokens" is outside dimension "vocab"
//   of size 5 (gather "embed", lm.cc:12)                        [on one line]
absl::Status IndexOutOfRange(int64_t index, int64_t position,
                             const Shape& indices_shape,
                             absl::string_view indices_name,
                             const Dimension& dimension, absl::string_view kind,
                             absl::string_view operation_name,
                             const CallSite& site);

}  // namespace mtf

#endif  // MTF_ERRORS_H_
