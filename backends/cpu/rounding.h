// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_ROUNDING_H_
#define BACKENDS_CPU_ROUNDING_H_

#include <cstdint>

namespace mtf::cpu {

// a / b, rounded up, for a >= 0 and b > 0.
inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_ROUNDING_H_
