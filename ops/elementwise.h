// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_ELEMENTWISE_H_
#define OPS_ELEMENTWISE_H_

#include <source_location>
#include <vector>

#include "mtf/dtype.h"
#include "mtf/scalar_functions.h"
#include "mtf/tensor.h"

namespace mtf {

// An operand of an elementwise function: a Tensor, or a number that takes the
// dtype of the other operands. Made implicitly, it notes the user's line, which
// an operator has no parameter for. Write {x, location} to hand on another.
struct TensorArg {
  TensorArg(Tensor tensor,  // NOLINT: implicit on purpose
            std::source_location location = std::source_location::current())
      : tensor(tensor), location(location) {}
  TensorArg(double number,  // NOLINT: implicit on purpose
            std::source_location location = std::source_location::current())
      : number(number), is_number(true), location(location) {}

  Tensor tensor;
  double number = 0;
  bool is_number = false;
  std::source_location location;
};

// Every row of mtf/scalar_functions.h is a function of the same name, which
// works element by element; the formulas are there:
//
//   float        Sin Cos Exp Log Log1p Sqrt Rsqrt Reciprocal Tanh Sigmoid
//                Swish Gelu Elu Selu Softplus LeakyRelu Floor; Divide Pow
//   float, int   Identity Negate Square Abs Sign Relu; Add Subtract Multiply
//                Maximum Minimum FloorDivide Mod;
//                Less LessEqual Greater GreaterEqual Equal NotEqual -> bool
//   bool         LogicalAnd LogicalOr LogicalNot
//
// Operands are broadcast by name. Where the dimensions of one are an ordered
// subsequence of the other's, the result has the longer list; otherwise it has
// the first operand's dimensions followed by those that only later ones have.
//
//   Tensor y = Maximum(x + bias, 0.0);  // [batch, io] + [io] -> [batch, io]
//
// The result has the dtype of the operands, or bool. Maximum and Minimum share
// the gradient of a tie; Relu and LeakyRelu have the left slope at 0. An
// integer divided by zero by FloorDivide is 0, so Mod by zero is the dividend.
//
// The graph records kInvalidArgument, as its first error, which Graph::status()
// and Session::Create return, for a name of two sizes, operands of two dtypes,
// a dtype the function does not take, a number that the dtype cannot hold (0.5
// beside an i32), and an operand that is empty or of another graph. Numbers and
// empty Tensors alone give an empty Tensor; so it is with all functions below.
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

// `x` where the bool `condition` holds, else `y`; all three are broadcast by
// name. `x` and `y` share a dtype, any one; two numbers are f32. Nothing of the
// side that is not taken is seen, not even a NaN; it gets the gradient 0. Where
// its own slope is infinite, 0 times that is a NaN, so select its operand as
// well:
//
//   Tensor y = Select(ok, Log(Select(ok, x, 1.0)), 0.0);
//
// Errors as above, and kInvalidArgument for a condition that is no bool.
Tensor Select(TensorArg condition, TensorArg x, TensorArg y);

// The same shape and numbers in another dtype, from any to any. Floats round to
// nearest even; a float becomes an integer by truncation, or the least or
// greatest one beyond their range, or 0 from a NaN; an integer wraps around in
// the other; a bool is 0 or 1; a number is true where it is not 0. The gradient
// is cast back, between float dtypes only.
//
//   Tensor y = Cast(x, kBFloat16);
Tensor Cast(Tensor x, DType dtype,
            std::source_location location = std::source_location::current());

// A constant of the shape and dtype of `x`. kInvalidArgument for a value that
// the dtype cannot hold.
Tensor Like(Tensor x, double value,
            std::source_location location = std::source_location::current());

// The sum of one or more tensors, broadcast by name, added left to right.
// Errors are those of Add.
Tensor AddN(std::vector<Tensor> xs,
            std::source_location location = std::source_location::current());

inline Tensor operator+(TensorArg x, TensorArg y) { return Add(x, y); }
inline Tensor operator-(TensorArg x, TensorArg y) { return Subtract(x, y); }
inline Tensor operator*(TensorArg x, TensorArg y) { return Multiply(x, y); }
inline Tensor operator/(TensorArg x, TensorArg y) { return Divide(x, y); }
inline Tensor operator-(TensorArg x) { return Negate(x); }

}  // namespace mtf

#endif  // OPS_ELEMENTWISE_H_
