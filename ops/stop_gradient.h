// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_STOP_GRADIENT_H_
#define OPS_STOP_GRADIENT_H_

#include <source_location>

#include "mtf/tensor.h"

namespace mtf {

// `x`, through which no gradient flows back. Any shape and dtype; an empty `x`
// gives an empty Tensor, and no call is wrong.
//
//   Tensor shifted = x - StopGradient(ReduceMax(x, {batch}));
Tensor StopGradient(
    Tensor x, std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_STOP_GRADIENT_H_
