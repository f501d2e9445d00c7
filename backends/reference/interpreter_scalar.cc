// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/interpreter_scalar.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "mtf/half.h"

namespace mtf {

double WrapToDType(double x, DType dtype) {
  if (!IsInteger(dtype)) return x;
  // Doubles of this size are multiples of 2^11, so the remainder is exact.
  if (!(x >= -0x1p63 && x < 0x1p63)) {
    x = std::isfinite(x) ? std::remainder(x, 0x1p64) : 0;
    if (x >= 0x1p63) x -= 0x1p64;
  }
  const auto integer = static_cast<int64_t>(x);
  return dtype == kInt32 ? static_cast<int32_t>(static_cast<uint64_t>(integer))
                         : static_cast<double>(integer);
}

double CastToDType(double x, DType from, DType to) {
  if (IsInteger(from) && IsInteger(to)) return WrapToDType(x, to);
  switch (to) {
    case kFloat32:
      return static_cast<float>(x);
    case kBFloat16:
      return ToFloat(ToBFloat16(static_cast<float>(x)));
    case kFloat16:
      return ToFloat(ToFloat16(static_cast<float>(x)));
    case kInt32:
      if (std::isnan(x)) return 0;
      return std::clamp<double>(std::trunc(x),
                                std::numeric_limits<int32_t>::min(),
                                std::numeric_limits<int32_t>::max());
    case kInt64:
      if (std::isnan(x)) return 0;
      return std::clamp<double>(std::trunc(x), -0x1p63, 0x1p63 - 1024);
    case kBool:
      return x != 0;
  }
  return x;
}

double EvaluateStep(const MapStep& step, const std::vector<double>& numbers,
                    const std::vector<DType>& dtypes) {
  const auto argument = [&](size_t i) {
    return i < step.arguments.size() ? numbers[step.arguments[i]] : 0;
  };
  const double x = argument(0), y = argument(1), z = argument(2);
  if (step.function == ScalarFunction::kLiteral) return step.literal;
  if (step.function == ScalarFunction::kCast) {
    return CastToDType(x, dtypes[step.arguments[0]], step.dtype);
  }
  if (IsInteger(step.dtype) && y == 0) {
    if (step.function == ScalarFunction::kFloorDivide) return 0;
    if (step.function == ScalarFunction::kMod) return x;
  }
  return WrapToDType(EvaluateScalar(step.function, x, y, z), step.dtype);
}

}  // namespace mtf
