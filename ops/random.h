// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_RANDOM_H_
#define OPS_RANDOM_H_

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

// Random numbers that depend on the seed of the run, the place of the call
// among the random calls of its graph, the step, and the place of the element
// in `shape`; never on a layout. Drawn in f32, then cast to the dtype.
//
//   Tensor w = Variable(graph, "w",
//                       RandomNormal(graph, {io, hidden}, 0, 0.02));
//
// kInvalidArgument, as the graph's first error (Graph::status(),
// Session::Create), for a dtype that is no float, a shape that Shape::Validate
// refuses, a low, high or mean that is no finite number of the dtype, a low
// above high, a high - low that is not finite in f32, and a stddev that is
// negative or not finite. A wrong call counts among the random calls as well.

// Uniform in [low, high), both rounded to the dtype: low + (high - low) * u,
// where u is a multiple of 2^-24 in [0, 1), and the number before `high` where
// rounding would reach it. Where the two are one number, it is that number.
Tensor RandomUniform(
    Graph& graph, Shape shape, double low, double high,
    RandomOptions options = {},
    std::source_location location = std::source_location::current());

// Normal, by the method of Box and Muller (1958).
Tensor RandomNormal(
    Graph& graph, Shape shape, double mean, double stddev,
    RandomOptions options = {},
    std::source_location location = std::source_location::current());

struct DropoutOptions {
  // The dimensions over which the mask varies, a subset of those of the
  // tensor; the others share it. Empty stands for all of them.
  Shape noise_shape;
};

// Zeroes each element of the float `x` with probability `rate`, in [0, 1), and
// multiplies the others by 1 / (1 - rate). A rate of 0 is `x` itself. The shape
// and the dtype stay; the probability is rounded up to a multiple of 2^-24.
//
//   Tensor y = Dropout(x, 0.1);
//
// kInvalidArgument for another rate, an x that is no float, and a noise_shape
// with a dimension that x lacks or has in another size. An empty `x` gives an
// empty Tensor.
Tensor Dropout(Tensor x, double rate, DropoutOptions options = {},
               std::source_location location = std::source_location::current());

}  // namespace mtf

#endif  // OPS_RANDOM_H_
