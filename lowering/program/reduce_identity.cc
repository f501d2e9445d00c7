// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/reduce_identity.h"

#include <cstdint>
#include <limits>

namespace mtf {

double ReduceIdentity(ReduceKind kind, DType dtype) {
  if (kind == ReduceKind::kSum) return 0;
  const double sign = kind == ReduceKind::kMax ? -1 : 1;
  switch (dtype) {
    case kInt32:
      return kind == ReduceKind::kMax ? std::numeric_limits<int32_t>::min()
                                      : std::numeric_limits<int32_t>::max();
    case kBool:
      return kind == ReduceKind::kMax ? 0 : 1;
    default:
      // For int64 too, because a double cannot hold its greatest value.
      return sign * std::numeric_limits<double>::infinity();
  }
}

}  // namespace mtf
