// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_OVERLAP_H_
#define BACKENDS_CPU_OVERLAP_H_

#include "backends/backend.h"

namespace mtf::cpu {

// Whether the memory of two values overlaps.
inline bool Overlaps(const BoundValue& x, const BoundValue& y) {
  const char* const x_begin = static_cast<const char*>(x.data);
  const char* const y_begin = static_cast<const char*>(y.data);
  return x_begin < y_begin + y.elements() * DTypeSize(y.dtype()) &&
         y_begin < x_begin + x.elements() * DTypeSize(x.dtype());
}

// Whether two values have the same dimensions in the same order.
inline bool HaveSameElements(const BoundValue& x, const BoundValue& y) {
  return x.value->shape == y.value->shape && x.value->local == y.value->local;
}

// Whether element i of both is at the same address, for every i.
inline bool IsSameMemory(const BoundValue& x, const BoundValue& y) {
  return x.data == y.data && DTypeSize(x.dtype()) == DTypeSize(y.dtype()) &&
         HaveSameElements(x, y);
}

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_OVERLAP_H_
