// SPDX-License-Identifier: Apache-2.0
//
// Chains of steps of a map as one vector loop, so that the results between them
// stay in registers.
#ifndef BACKENDS_CPU_FUNCTION_CHAINS_H_
#define BACKENDS_CPU_FUNCTION_CHAINS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "backends/cpu/vector_functions.h"
#include "mtf/scalar_functions.h"

namespace mtf::cpu {

// A function of the result of the link before it, as its left argument or as
// its right one, and of another argument.
struct ChainLink {
  ScalarFunction function;
  bool is_left = true;
  FloatArgument other;
};

// Whether chains may contain the function: sums, differences and products,
// whose loops take less time than to write and read their results.
bool IsChainable(ScalarFunction function);

// z = the result of the last link; the first one reads `x`. Rounds the result
// of every link, so the bits are those of a loop for each. `n` is a multiple of
// kLanes; `z` may be one of the arguments.
void EvaluateFloatChain(const FloatArgument& x,
                        absl::Span<const ChainLink> links, float* z, int64_t n);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_FUNCTION_CHAINS_H_
