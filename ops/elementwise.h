// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_ELEMENTWISE_H_
#define OPS_ELEMENTWISE_H_

#include <source_location>
#include <vector>

#include "mtf/dtype.h"
#include "mtf/scalar_functions.h"
#include "mtf/tensor.h"

namespace mtf {

// An operand of an elementwise function: a Tensor, or a number, which takes the
// dtype of the other operands (as does a Constant without a dtype). Implicit
// conversion records the caller's source location, because operators cannot
// have a parameter for it. To pass another location, write {x, location}.
struct TensorArg {
  TensorArg(Tensor tensor,  // NOLINT: implicit conversion is intended
            std::source_location location = std::source_location::current())
      : tensor(tensor), location(location) {}
  TensorArg(double number,  // NOLINT: implicit conversion is intended
            std::source_location location = std::source_location::current())
      : number(number), is_number(true), location(location) {}

  Tensor tensor;
  double number = 0;
  bool is_number = false;
  std::source_location location;
};

// Elementwise functions: one per row of mtf/scalar_functions.h, which has the
// formulas.
//
//   float        Sin Cos Exp Log Log1p Sqrt Rsqrt Reciprocal Tanh Sigmoid
//                Swish Gelu GeluDerivative Elu Selu Softplus LeakyRelu Floor;
//                Divide Pow
//   float, int   Identity Negate Square Abs Sign Relu; Add Subtract Multiply
//                Maximum Minimum FloorDivide Mod;
//                Less LessEqual Greater GreaterEqual Equal NotEqual -> bool
//   bool         LogicalAnd LogicalOr LogicalNot
//
// Operands are broadcast by name. If the dimensions of one operand are an
// ordered subsequence of the other's, the result has the longer list; otherwise
// it has the dimensions of the first operand, then the new ones of the second.
//
//   Tensor y = Maximum(x + bias, 0.0);  // [batch, io] + [io] -> [batch, io]
//
// The result has the dtype of the operands; comparisons return bool. At a tie,
// Maximum and Minimum give each operand half of the gradient. At 0, Relu and
// LeakyRelu have the slope of negative numbers. FloorDivide of an integer by
// zero is 0, and Mod by zero is the dividend.
//
// Records kInvalidArgument in the graph if a name has two sizes, the dtypes of
// the operands differ, the function does not accept the dtype, the dtype cannot
// represent a number (as 0.5 + an i32), or an operand is empty or belongs to
// another graph. Returns an empty Tensor if no operand is a non-empty Tensor.
// Both hold for all functions of this header.
#define MTF_DECLARE_UNARY(Name, ...) Tensor Name(TensorArg x);
MTF_UNARY_FLOAT_FUNCTIONS(MTF_DECLARE_UNARY)
MTF_UNARY_NUMBER_FUNCTIONS(MTF_DECLARE_UNARY)
#undef MTF_DECLARE_UNARY

#define MTF_DECLARE_BINARY(Name, ...) Tensor Name(TensorArg x, TensorArg y);
MTF_BINARY_NUMBER_FUNCTIONS(MTF_DECLARE_BINARY)
MTF_BINARY_FLOAT_FUNCTIONS(MTF_DECLARE_BINARY)
MTF_COMPARISON_FUNCTIONS(MTF_DECLARE_BINARY)
MTF_LOGICAL_FUNCTIONS(MTF_DECLARE_BINARY)
#undef MTF_DECLARE_BINARY

Tensor LogicalNot(TensorArg x);

// `x` where the bool `condition` is true, `y` elsewhere, all broadcast by name.
// `x` and `y` have the same dtype, of any kind; two numbers are f32. A NaN in
// the side that is not selected does not reach the result, and its gradient is
// 0. If the derivative of that side is infinite, 0 times infinity is a NaN, so
// select its operand as well:
//
//   Tensor y = Select(ok, Log(Select(ok, x, 1.0)), 0.0);
//
// Errors are those above, and kInvalidArgument if `condition` is not bool.
Tensor Select(TensorArg condition, TensorArg x, TensorArg y);

// Converts `x` to another dtype.
//
//   Tensor y = Cast(x, kBFloat16);
//
//   to float            rounds to nearest even
//   float to integer    truncates; saturates at the limits; a NaN becomes 0
//   integer to integer  wraps around
//   from bool           0 or 1
//   to bool             true for every number but 0
//
// Has a gradient between float dtypes only: the gradient, cast back.
Tensor Cast(Tensor x, DType dtype,
            std::source_location location = std::source_location::current());

// A constant of the shape and dtype of `x`. Records kInvalidArgument in the
// graph if the dtype cannot represent `value`.
Tensor Like(Tensor x, double value,
            std::source_location location = std::source_location::current());

// The sum of one or more tensors, broadcast by name and added from left to
// right. Errors are those of Add.
Tensor AddN(std::vector<Tensor> xs,
            std::source_location location = std::source_location::current());

// Operators for the functions above. Comparisons are elementwise and return a
// bool tensor, `==` and `!=` too: SameTensor() of mtf/tensor.h tells whether
// two Tensors are the result of one operation.
//
//   Tensor y = Select(x > 0.0, x, 0.2 * x);
//
// `x += y` assigns the handle `x`: earlier copies of it keep their value.
inline Tensor operator+(TensorArg x, TensorArg y) { return Add(x, y); }
inline Tensor operator-(TensorArg x, TensorArg y) { return Subtract(x, y); }
inline Tensor operator*(TensorArg x, TensorArg y) { return Multiply(x, y); }
inline Tensor operator/(TensorArg x, TensorArg y) { return Divide(x, y); }
inline Tensor operator-(TensorArg x) { return Negate(x); }

inline Tensor operator==(TensorArg x, TensorArg y) { return Equal(x, y); }
inline Tensor operator!=(TensorArg x, TensorArg y) { return NotEqual(x, y); }
inline Tensor operator<(TensorArg x, TensorArg y) { return Less(x, y); }
inline Tensor operator<=(TensorArg x, TensorArg y) { return LessEqual(x, y); }
inline Tensor operator>(TensorArg x, TensorArg y) { return Greater(x, y); }
inline Tensor operator>=(TensorArg x, TensorArg y) {
  return GreaterEqual(x, y);
}

inline Tensor& operator+=(Tensor& x, TensorArg y) {
  return x = Add({x, y.location}, y);
}
inline Tensor& operator-=(Tensor& x, TensorArg y) {
  return x = Subtract({x, y.location}, y);
}
inline Tensor& operator*=(Tensor& x, TensorArg y) {
  return x = Multiply({x, y.location}, y);
}
inline Tensor& operator/=(Tensor& x, TensorArg y) {
  return x = Divide({x, y.location}, y);
}

}  // namespace mtf

#endif  // OPS_ELEMENTWISE_H_
