// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_GELU_GRADIENT_H_
#define LOWERING_FUSION_GELU_GRADIENT_H_

#include <optional>

#include "mtf/map_expression.h"

namespace mtf {

// The operands of a map that computes the gradient of GELU: `slope`, the
// gradient of the result, times the derivative of GELU at `x`.
struct GeluGradient {
  int slope = 0, x = 0;
};

// Returns nullopt for any other map. Compares what the map computes, not how it
// is written: its steps may have been fused and shared in any way.
std::optional<GeluGradient> FindGeluGradient(const MapExpression& expression);

}  // namespace mtf

#endif  // LOWERING_FUSION_GELU_GRADIENT_H_
