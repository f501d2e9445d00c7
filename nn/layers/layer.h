// SPDX-License-Identifier: Apache-2.0
//
// Helpers shared by layers. Not for users.
#ifndef NN_LAYERS_LAYER_H_
#define NN_LAYERS_LAYER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/dimension.h"
#include "mtf/dtype.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn::internal {

// The name of a layer in errors: "dense", or "dense \"query\"" if the user gave
// it a name.
std::string DescribeLayer(absl::string_view kind, absl::string_view name);

// Checks that `x` has `dim`, in this size.
absl::Status CheckDimension(Tensor x, const Dimension& dim);

// Check that `x` has a float or an integer dtype. Errors call it `what`.
absl::Status CheckFloat(Tensor x, absl::string_view what);
absl::Status CheckInteger(Tensor x, absl::string_view what);

// Checks that the user has given `dim`, which is the option `option`: ".heads".
absl::Status CheckGiven(const Dimension& dim, absl::string_view option);

// The last dimension of `x`. An error if it is one of `others`.
absl::StatusOr<Dimension> ModelDimension(Tensor x, const Shape& others = {});

// The dimensions of `a`, then those of `b`.
Shape Join(const Shape& a, const Shape& b);

// `x` cast to `dtype`, or `x` itself if it has that dtype.
Tensor To(DType dtype, Tensor x);

// The maximum of the f32 `x` over the dimensions that `output` leaves out, to
// be subtracted before an exponential. Has no gradient, and is finite even if
// every element is -infinity, so that x - max is not NaN.
Tensor SafeMax(Tensor x, const Shape& output);

}  // namespace mtf::nn::internal

#endif  // NN_LAYERS_LAYER_H_
