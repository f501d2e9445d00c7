// SPDX-License-Identifier: Apache-2.0
//
// The iteration of Newton and Schulz, which makes matrices orthogonal. Not for
// users.
#ifndef NN_LAYERS_ORTHOGONALIZE_H_
#define NN_LAYERS_ORTHOGONALIZE_H_

#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn::internal {

// p(s) = linear * s + cubic * s^3 + quintic * s^5, a function of singular
// values.
struct OddPolynomial {
  double linear, cubic, quintic;
};

// Moves singular values from (0, 1] towards 1, small ones by a factor of 3.4 in
// a step, to between 0.7 and 1.2 and no closer (Jordan, 2024).
inline constexpr OddPolynomial kFastQuintic = {3.4445, -4.7750, 2.0315};
// Converges quadratically to 1.
inline constexpr OddPolynomial kCubic = {1.5, -0.5, 0};

// `x` divided by its norm, so that no singular value exceeds 1. The norm is
// that of each of the matrices stacked along the dimensions `stack`, and at
// least `epsilon`.
Tensor Normalized(Tensor x, const Shape& stack, double epsilon);

// `x` with the polynomial of its singular values. It is a matrix from the
// dimensions `rows` to its others, or a stack of them along `stack`.
//
//   linear * x + cubic * (x x^T) x + quintic * (x x^T)^2 x
//
// Rows and columns can be swapped; the cost is lower if rows are the smaller
// side. Where a layout shards columns, x x^T is all_reduced; where it shards
// rows, x and x x^T are gathered.
Tensor OrthogonalizeStep(Tensor x, const Shape& stack, const Shape& rows,
                         const OddPolynomial& p);

}  // namespace mtf::nn::internal

#endif  // NN_LAYERS_ORTHOGONALIZE_H_
