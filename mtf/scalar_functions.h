// SPDX-License-Identifier: Apache-2.0
//
// The table of elementwise functions. Each row defines one function for the
// whole library: the function on tensors, its gradient, the oracle, the CPU and
// GPU kernels, the text form and the tests over all rows are generated from it.
//
// The value of a row is an expression over a type T, which is double in the
// oracle and a SIMD vector in the CPU kernels, so it may use only operators and
// the functions of this table. The gradient is an expression over Tensors, in
// which a number may be used in place of any operand:
//   x, y   operands        z   the value of the row
//   g      gradient with respect to z; {} means "no gradient"
//
// On every backend integer results wrap around, FloorDivide by zero is 0 and
// Mod by zero is the dividend.
//
// To add a function, add a row. A value that other rows cannot express also
// needs a primitive in namespace scalar below and in each backend.
#ifndef MTF_SCALAR_FUNCTIONS_H_
#define MTF_SCALAR_FUNCTIONS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// clang-format off

// ROW(Name, "text", value, gradient), float operands only.
#define MTF_UNARY_FLOAT_FUNCTIONS(ROW)                                         \
  ROW(Sin, "sin", Sin(x), g * Cos(x))                                          \
  ROW(Cos, "cos", Cos(x), -(g * Sin(x)))                                       \
  ROW(Exp, "exp", Exp(x), g * z)                                               \
  ROW(Log, "log", Log(x), g / x)                                               \
  ROW(Log1p, "log1p", Log1p(x), g / (1.0 + x))                                 \
  ROW(Sqrt, "sqrt", Sqrt(x), 0.5 * g / z)                                      \
  ROW(Rsqrt, "rsqrt", 1.0 / Sqrt(x), -0.5 * g * z / x)                         \
  ROW(Reciprocal, "reciprocal", 1.0 / x, -(g * z * z))                         \
  ROW(Tanh, "tanh", Tanh(x), g * (1.0 - z * z))                                \
  ROW(Sigmoid, "sigmoid", 1.0 / (1.0 + Exp(-x)), g * z * (1.0 - z))            \
  ROW(Swish, "swish", x / (1.0 + Exp(-x)), g * (z + Sigmoid(x) * (1.0 - z)))   \
  ROW(Gelu, "gelu",                                                            \
      0.5 * x * (1.0 + Tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))), \
      g * GeluDerivative(x))                                                   \
  ROW(GeluDerivative, "gelu_derivative", GeluDerivative(x),                    \
      g * SecondGeluDerivative(x))                                             \
  ROW(Elu, "elu", Select(Greater(x, 0.0), x, Exp(Minimum(x, 0.0)) - 1.0),      \
      g * Select(Greater(x, 0.0), 1.0, z + 1.0))                               \
  ROW(Selu, "selu",                                                            \
      1.0507009873554805 *                                                     \
          Select(Greater(x, 0.0), x,                                           \
                 1.6732632423543772 * (Exp(Minimum(x, 0.0)) - 1.0)),           \
      g * Select(Greater(x, 0.0), 1.0507009873554805, z + 1.7580993408473766)) \
  ROW(Softplus, "softplus", Maximum(x, 0.0) + Log1p(Exp(-Abs(x))),             \
      g * Sigmoid(x))                                                          \
  ROW(LeakyRelu, "leaky_relu", Select(Greater(x, 0.0), x, 0.2 * x),            \
      Select(Greater(x, 0.0), g, 0.2 * g))                                     \
  ROW(Floor, "floor", Floor(x), {})

// Float or integer operands.
#define MTF_UNARY_NUMBER_FUNCTIONS(ROW)               \
  ROW(Identity, "identity", x, g)                     \
  ROW(Negate, "neg", -x, -g)                          \
  ROW(Square, "square", x * x, 2.0 * g * x)           \
  ROW(Abs, "abs", Maximum(x, -x), g * Sign(x))        \
  ROW(Sign, "sign",                                   \
      Select(Greater(x, 0.0), Like(x, 1.0),           \
             Select(Less(x, 0.0), Like(x, -1.0), x)), \
      {})                                             \
  ROW(Relu, "relu", Maximum(x, 0.0), Select(Greater(x, 0.0), g, 0.0))

// ROW(Name, "text", value, gradient of x, gradient of y). Both operands have the
// same float or integer dtype. At a tie of Maximum and Minimum each operand gets
// half of the gradient.
#define MTF_BINARY_NUMBER_FUNCTIONS(ROW)                          \
  ROW(Add, "add", x + y, g, g)                                    \
  ROW(Subtract, "sub", x - y, g, -g)                              \
  ROW(Multiply, "mul", x * y, g * y, g * x)                       \
  ROW(Maximum, "max", Maximum(x, y),                              \
      Select(Greater(x, y), g, Select(Less(x, y), 0.0, 0.5 * g)), \
      Select(Greater(y, x), g, Select(Less(y, x), 0.0, 0.5 * g))) \
  ROW(Minimum, "min", Minimum(x, y),                              \
      Select(Less(x, y), g, Select(Greater(x, y), 0.0, 0.5 * g)), \
      Select(Less(y, x), g, Select(Greater(y, x), 0.0, 0.5 * g))) \
  ROW(FloorDivide, "floordiv", FloorDivide(x, y), {}, {})         \
  ROW(Mod, "mod", Mod(x, y), g, -(g * FloorDivide(x, y)))

#define MTF_BINARY_FLOAT_FUNCTIONS(ROW)                    \
  ROW(Divide, "div", x / y, g / y, -(g * z / y))           \
  ROW(Pow, "pow", Pow(x, y),                               \
      g * y * Pow(x, Select(Equal(y, 0.0), 1.0, y - 1.0)), \
      g * z * Log(Select(Greater(x, 0.0), x, 1.0)))

// Comparisons of numbers; the result is bool and has no gradient.
#define MTF_COMPARISON_FUNCTIONS(ROW)                    \
  ROW(Less, "less", Less(x, y))                          \
  ROW(LessEqual, "less_equal", LessEqual(x, y))          \
  ROW(Greater, "greater", Greater(x, y))                 \
  ROW(GreaterEqual, "greater_equal", GreaterEqual(x, y)) \
  ROW(Equal, "equal", Equal(x, y))                       \
  ROW(NotEqual, "not_equal", NotEqual(x, y))

// Functions of bools; the result is bool and has no gradient.
#define MTF_LOGICAL_FUNCTIONS(ROW) \
  ROW(LogicalAnd, "and", x && y)   \
  ROW(LogicalOr, "or", x || y)

// clang-format on

namespace mtf {

// The function of a step of a map expression: a row of the tables above, or one
// of the functions that have no row.
enum class ScalarFunction : uint8_t {
#define ROW(Name, ...) k##Name,
  MTF_UNARY_FLOAT_FUNCTIONS(ROW) MTF_UNARY_NUMBER_FUNCTIONS(ROW)
      MTF_BINARY_NUMBER_FUNCTIONS(ROW) MTF_BINARY_FLOAT_FUNCTIONS(ROW)
          MTF_COMPARISON_FUNCTIONS(ROW) MTF_LOGICAL_FUNCTIONS(ROW)
#undef ROW
  // bool
  kLogicalNot,
  // (bool, T, T) -> T
  kSelect,
  // converts to the dtype of the step
  kCast,
  // no operand: the number MapStep::number()
  kLiteral,
  // no operand: the global index along MapStep::dimension
  kIota,
};

enum class FunctionDomain : uint8_t { kFloat, kNumber, kLogical, kAny };

struct ScalarFunctionInfo {
  ScalarFunction function;
  absl::string_view text;  // in the program's text form
  int arity;
  FunctionDomain domain;
  bool is_comparison;  // takes numbers and returns bool
};

const ScalarFunctionInfo& InfoOf(ScalarFunction function);
// The inverse of ScalarFunctionInfo::text. An unknown name is kInvalidArgument
// with the nearest name.
absl::StatusOr<ScalarFunction> ParseScalarFunction(absl::string_view text);

// The value of a row, kLogicalNot or kSelect in double precision, where bools
// are 0 and 1. Used by the oracle, by the reference device and by the analysis
// of padding.
double EvaluateScalar(ScalarFunction function, double x, double y = 0,
                      double z = 0);

// The primitives for T = double.
namespace scalar {
inline double Sin(double x) { return std::sin(x); }
inline double Cos(double x) { return std::cos(x); }
inline double Exp(double x) { return std::exp(x); }
inline double Log(double x) { return std::log(x); }
inline double Log1p(double x) { return std::log1p(x); }
inline double Sqrt(double x) { return std::sqrt(x); }
inline double Tanh(double x) { return std::tanh(x); }
inline double Floor(double x) { return std::floor(x); }
inline double Pow(double x, double y) { return std::pow(x, y); }
inline double Abs(double x) { return std::abs(x); }
// NaN if either operand is NaN, so that a NaN is never hidden.
inline double Maximum(double x, double y) {
  return std::isnan(x) || std::isnan(y) ? x + y : std::max(x, y);
}
inline double Minimum(double x, double y) {
  return std::isnan(x) || std::isnan(y) ? x + y : std::min(x, y);
}
inline double FloorDivide(double x, double y) { return std::floor(x / y); }
inline double Mod(double x, double y) { return x - std::floor(x / y) * y; }
inline bool Less(double x, double y) { return x < y; }
inline bool LessEqual(double x, double y) { return x <= y; }
inline bool Greater(double x, double y) { return x > y; }
inline bool GreaterEqual(double x, double y) { return x >= y; }
inline bool Equal(double x, double y) { return x == y; }
inline bool NotEqual(double x, double y) { return x != y; }
inline double Select(bool condition, double x, double y) {
  return condition ? x : y;
}
inline double Like(double, double value) { return value; }
// The derivative of the row Gelu, the tanh approximation of x * Phi(x)
// (Hendrycks and Gimpel, 2016), where (1 + tanh(u / 2)) / 2 = 1 / (1 + e^-u).
// Beyond 32 it is 1 or 0 to the last bit; without the limit, infinity would be
// divided by infinity.
inline double GeluDerivative(double x) {
  const double c = Maximum(Minimum(x, 32.0), -32.0);
  const double scaled = 1.5957691216057308 * c;
  const double u = scaled * (1.0 + 0.044715 * c * c);
  return (1.0 + scaled * (1.0 + 0.134145 * c * c) / (1.0 + Exp(u))) /
         (1.0 + Exp(-u));
}
}  // namespace scalar

// The gradient of the row GeluDerivative, over Tensors. Beyond 10 it is 0, and
// the limit keeps the powers of x in the range of f16.
template <class T>
T SecondGeluDerivative(const T& x) {
  const T c = Maximum(Minimum(x, 10.0), -10.0);
  const T square = 0.1070322244089 * c * c;
  const T t = Tanh(c * (0.7978845608028654 + square / 3.0));
  const T slope = 0.7978845608028654 + square;
  return (1.0 - t * t) * (slope + square - c * t * slope * slope);
}

}  // namespace mtf

#endif  // MTF_SCALAR_FUNCTIONS_H_
