// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_RANDOM_H_
#define OPS_RANDOM_H_

#include <cstdint>
#include <source_location>

#include "mtf/dtype.h"
#include "mtf/graph.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf {

struct RandomOptions {
  bool per_step = true;  // false: the same numbers in every step
  DType dtype = kFloat32;
};

// Random numbers. Each depends on the seed of the run, the current scope, the
// number of random calls in this scope before this one, the step, and the index
// of the element in `shape`; it does not depend on the layout. Numbers are
// drawn in f32 and cast to the dtype.
//
//   Tensor w = Variable(graph, "w",
//                       RandomNormal(graph, {io, hidden}, 0, 0.02));
//
// Record kInvalidArgument in the graph if the dtype is not a float; if
// Shape::Validate rejects `shape`; if low, high or mean is not a finite number
// of the dtype; if low > high or high - low is not finite in f32; or if stddev
// is negative or not finite. A call with an error counts as a random call too.

// Uniform in [low, high), both rounded to the dtype: low + (high - low) * u,
// where u is a multiple of 2^-24 in [0, 1). If rounding would give `high`, the
// result is the next lower number. If low and high are equal, it is that
// number.
Tensor RandomUniform(
    Graph& graph, Shape shape, double low, double high,
    RandomOptions options = {},
    std::source_location location = std::source_location::current());

// Normal with the given mean and standard deviation, by the method of Box and
// Muller (1958).
Tensor RandomNormal(
    Graph& graph, Shape shape, double mean, double stddev,
    RandomOptions options = {},
    std::source_location location = std::source_location::current());

// Standard Gumbel: -log(-log(u)) of a uniform u in (0, 1), in [-2.9, 16.7]. The
// index of the greatest of logits + noise is a sample of softmax(logits): see
// RandomCategorical.
Tensor RandomGumbel(
    Graph& graph, Shape shape, RandomOptions options = {},
    std::source_location location = std::source_location::current());

struct DropoutOptions {
  // The dimensions along which the mask varies, a subset of those of `x`; the
  // mask is broadcast along the others. Empty: all dimensions of `x`.
  Shape noise_shape;
};

// Sets each element of the float `x` to 0 with probability `rate`, in [0, 1),
// and multiplies the others by 1 / (1 - rate). Keeps the shape and dtype. A
// rate of 0 returns `x`, and so does every rate in a graph for evaluation
// (ModeScope). The probability is rounded up to a multiple of 2^-24.
//
//   Tensor y = Dropout(x, 0.1);
//
// Records kInvalidArgument in the graph if the rate is outside [0, 1), `x` is
// not a float, or noise_shape has a dimension that `x` lacks or has in another
// size. Returns an empty Tensor if `x` is empty.
Tensor Dropout(Tensor x, double rate, DropoutOptions options = {},
               std::source_location location = std::source_location::current());

namespace internal {

// The least uniform random number of an element that Dropout keeps: `rate`
// rounded up to a value of such a number, so that the comparison is exact on
// every device.
double DropoutThreshold(double rate);

// Dropout of the float `x` at a rate above 0, with the random numbers of
// `stream` in place of a new one.
Tensor DropoutOfStream(Tensor x, double rate, const Shape& noise_shape,
                       uint32_t stream, std::source_location location);

}  // namespace internal
}  // namespace mtf

#endif  // OPS_RANDOM_H_
