// SPDX-License-Identifier: Apache-2.0
//
// Evaluates one step of an expression: floats in double precision, integers
// exactly and then wrapped around.
#include <cmath>
#include <cstdint>
#include <limits>

#include "backends/reference/device_kernels.h"
#include "mtf/check.h"
#include "mtf/host_tensor.h"

namespace mtf::reference {
namespace {

using F = ScalarFunction;

// Holds the product of two int64, so that the rows of the table are exact.
__extension__ typedef __int128 Wide;

Wide Maximum(Wide x, Wide y) { return x > y ? x : y; }
Wide Minimum(Wide x, Wide y) { return x < y ? x : y; }
bool Less(Wide x, Wide y) { return x < y; }
bool LessEqual(Wide x, Wide y) { return x <= y; }
bool Greater(Wide x, Wide y) { return x > y; }
bool GreaterEqual(Wide x, Wide y) { return x >= y; }
bool Equal(Wide x, Wide y) { return x == y; }
bool NotEqual(Wide x, Wide y) { return x != y; }
Wide Select(bool condition, Wide x, Wide y) { return condition ? x : y; }
Wide Like(Wide, double value) { return static_cast<Wide>(value); }
// A division by zero has the quotient 0 and the remainder x.
Wide FloorDivide(Wide x, Wide y) {
  if (y == 0) return 0;
  const bool rounds_up = x % y != 0 && (x < 0) != (y < 0);
  return x / y - (rounds_up ? 1 : 0);
}
Wide Mod(Wide x, Wide y) { return y == 0 ? x : x - FloorDivide(x, y) * y; }

Number Wrapped(DType dtype, Wide x) {
  const auto low = static_cast<uint64_t>(x);
  if (dtype == kInt32) return static_cast<int32_t>(low);
  return static_cast<int64_t>(low);
}

// Evaluates a row of the table, or a select, on integers.
Wide EvaluateIntegers(F function, Wide x, Wide y, Wide z) {
  switch (function) {
#define ROW(Name, text, value, ...) \
  case F::k##Name:                  \
    return value;
    MTF_UNARY_NUMBER_FUNCTIONS(ROW)
    MTF_BINARY_NUMBER_FUNCTIONS(ROW)
    MTF_COMPARISON_FUNCTIONS(ROW)
#undef ROW
    case F::kSelect:
      return x != 0 ? y : z;
    default:
      break;
  }
  MTF_CHECK(false) << InfoOf(function).text << " of integers";
  return 0;
}

Number Cast(DType from, DType to, Number x) {
  if (IsInteger(from) && IsInteger(to)) {
    return Wrapped(to, static_cast<Wide>(x));
  }
  if (IsInteger(from) && IsFloat(to)) {
    return RoundToDType(static_cast<float>(x), to);
  }
  if (to != kInt64) return RoundToDType(static_cast<double>(x), to);
  // Clamp a float to the range of int64, whose maximum is not a double.
  if (std::isnan(x)) return 0;
  constexpr Number kMost = std::numeric_limits<int64_t>::max();
  return x <= -0x1p63L ? -0x1p63L : x >= 0x1p63L ? kMost : std::trunc(x);
}

}  // namespace

Number EvaluateStep(const MapStep& step, DType operands, const Number (&x)[3],
                    int64_t index) {
  if (step.function == F::kLiteral)
    return Cast(kFloat32, step.dtype, step.literal);
  if (step.function == F::kIota) return Cast(kInt64, step.dtype, index);
  if (step.function == F::kCast) return Cast(operands, step.dtype, x[0]);
  if (IsInteger(operands)) {
    const Wide z =
        EvaluateIntegers(step.function, static_cast<Wide>(x[0]),
                         static_cast<Wide>(x[1]), static_cast<Wide>(x[2]));
    return IsInteger(step.dtype) ? Wrapped(step.dtype, z)
                                 : static_cast<Number>(z);
  }
  return RoundToDType(
      EvaluateScalar(step.function, static_cast<double>(x[0]),
                     static_cast<double>(x[1]), static_cast<double>(x[2])),
      step.dtype);
}

Number Sum(DType dtype, Number x, Number y) {
  if (!IsInteger(dtype)) return static_cast<double>(x) + static_cast<double>(y);
  return Wrapped(dtype, static_cast<Wide>(x) + static_cast<Wide>(y));
}

Number Product(DType dtype, Number x, Number y) {
  if (!IsInteger(dtype)) {
    return static_cast<double>(x) * static_cast<double>(y);
  }
  return Wrapped(dtype, static_cast<Wide>(x) * static_cast<Wide>(y));
}

}  // namespace mtf::reference
