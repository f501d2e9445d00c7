// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_STOP_GRADIENT_H_
#define OPS_STOP_GRADIENT_H_

#include <source_location>

#include "mtf/tensor.h"

namespace mtf {

// Returns `x` with a gradient of zero: Gradients does not pass through it. Any
// shape and dtype. Returns an empty Tensor if `x` is empty. Has no errors.
//
//   Tensor shifted = x - StopGradient(ReduceMax(x, {batch}));
Tensor StopGradient(
    Tensor x, std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_STOP_GRADIENT_H_
