// SPDX-License-Identifier: Apache-2.0
//
// The rows of mtf/scalar_functions.h on 64-bit integers, as plain loops. They
// compute masks and indices, which are a small share of a model.
#include <cstdint>

#include "backends/cpu/vector_functions.h"
#include "mtf/check.h"

namespace mtf::cpu {
namespace {

// An integer with wrap-around: padding may hold any value, so arithmetic must
// neither trap nor be undefined.
struct Int {
  int64_t v;
  Int(int64_t x) : v(x) {}
  Int(double x) : v(static_cast<int64_t>(x)) {}  // the rows' constants
  static Int Wrap(uint64_t x) { return Int(static_cast<int64_t>(x)); }
  uint64_t u() const { return static_cast<uint64_t>(v); }
};

inline Int operator+(Int x, Int y) { return Int::Wrap(x.u() + y.u()); }
inline Int operator-(Int x, Int y) { return Int::Wrap(x.u() - y.u()); }
inline Int operator*(Int x, Int y) { return Int::Wrap(x.u() * y.u()); }
inline Int operator-(Int x) { return Int::Wrap(0 - x.u()); }
inline bool Less(Int x, Int y) { return x.v < y.v; }
inline bool Greater(Int x, Int y) { return x.v > y.v; }
inline Int Select(bool condition, Int x, Int y) { return condition ? x : y; }
inline Int Like(Int, double value) { return Int(value); }
inline Int Maximum(Int x, Int y) { return x.v > y.v ? x : y; }
inline Int Minimum(Int x, Int y) { return x.v < y.v ? x : y; }
inline Int FloorDivide(Int x, Int y) {
  if (y.v == 0) return int64_t{0};
  if (y.v == -1) return -x;  // the only quotient that may overflow
  const int64_t quotient = x.v / y.v;
  const bool rounds_up = x.v % y.v != 0 && (x.v < 0) != (y.v < 0);
  return quotient - (rounds_up ? 1 : 0);
}
inline Int Mod(Int x, Int y) {
  if (y.v == 0) return x;
  return x - FloorDivide(x, y) * y;
}

// Reads an argument by index; a uniform argument has a step of 0.
struct IntArgumentReader {
  explicit IntArgumentReader(const IntArgument& argument)
      : data(argument.data), keep(argument.uniform ? 0 : ~int64_t{0}) {}
  Int operator()(int64_t i) const { return data[i & keep]; }
  const int64_t* data;
  int64_t keep;
};

}  // namespace

void EvaluateInts(ScalarFunction function, const IntArgument* arguments,
                  int64_t* out, int64_t n) {
  using F = ScalarFunction;
  switch (function) {
#define ROW(Name, text, value, ...)               \
  case F::k##Name: {                              \
    const IntArgumentReader read_x(arguments[0]); \
    for (int64_t i = 0; i < n; ++i) {             \
      const Int x = read_x(i);                    \
      out[i] = Int(value).v;                      \
    }                                             \
    return;                                       \
  }
    MTF_UNARY_NUMBER_FUNCTIONS(ROW)
#undef ROW
#define ROW(Name, text, value, ...)                                     \
  case F::k##Name: {                                                    \
    const IntArgumentReader read_x(arguments[0]), read_y(arguments[1]); \
    for (int64_t i = 0; i < n; ++i) {                                   \
      const Int x = read_x(i), y = read_y(i);                           \
      out[i] = Int(value).v;                                            \
    }                                                                   \
    return;                                                             \
  }
    MTF_BINARY_NUMBER_FUNCTIONS(ROW)
#undef ROW
    default:
      break;
  }
  MTF_CHECK(false) << InfoOf(function).text << " of integers";
}

void SelectInts(FloatArgument condition, IntArgument x, IntArgument y,
                int64_t* z, int64_t n) {
  const IntArgumentReader read_x(x), read_y(y);
  const int64_t keep = condition.uniform ? 0 : ~int64_t{0};
  for (int64_t i = 0; i < n; ++i) {
    z[i] = condition.data[i & keep] != 0 ? read_x(i).v : read_y(i).v;
  }
}

}  // namespace mtf::cpu
