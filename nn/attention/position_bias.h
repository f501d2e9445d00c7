// SPDX-License-Identifier: Apache-2.0
//
// Biases of attention by the distance of positions, for the option .bias of
// DotProductAttention. Positions are integers that have the dimension of the
// queries or of the keys, and maybe others such as [batch]:
//
//   const Tensor positions = Range(graph, length);
//   const Tensor memory_positions = Range(graph, memory_length);
//
// When decoding, the position of a query is what the step has as an input.
#ifndef NN_ATTENTION_POSITION_BIAS_H_
#define NN_ATTENTION_POSITION_BIAS_H_

#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"

namespace mtf::nn {

struct RelativePositionOptions {
  // Buckets of distances. Half of them are for single distances, from 0; the
  // others grow by a constant factor up to max_distance, and the last has all
  // beyond.
  int64_t buckets = 32;
  int64_t max_distance = 128;
  // Half of all buckets are for keys after the query; otherwise these have
  // distance 0, for attention that is causal.
  bool bidirectional = true;
  double stddev = 0.02;  // of the normal initial values
  // Dimensions with a table of its own for each element, such as the members of
  // an ensemble. They come first in the result.
  Shape each = Shape();
  std::string name = "relative_position_bias";
};

// The bucket of the distance from each query to each key (Raffel et al., 2020,
// T5), i32, with the dimensions of both operands. Exact: compares integers.
//
//   // [length], [memory_length] -> [length, memory_length]
//   Tensor buckets =
//       nn::RelativePositionBuckets(positions, memory_positions);
//
// Records kInvalidArgument in the graph if positions are not integers,
// `buckets` is not even and at least 2 (4, with .bidirectional), or
// max_distance is not greater than the number of buckets for single distances.
// Returns an empty Tensor if both are empty.
Tensor RelativePositionBuckets(
    Tensor positions, Tensor memory_positions,
    RelativePositionOptions options = {},
    std::source_location location = std::source_location::current());

// T5's relative position bias: a parameter "table" [buckets, heads] at the
// buckets of all distances. Layers may share it.
//
//   // -> f32 [heads, length, memory_length]
//   Tensor bias =
//       nn::RelativePositionBias(positions, memory_positions, heads);
//
// Errors are those of RelativePositionBuckets; also if positions have `heads`,
// or stddev is negative or not finite.
Tensor RelativePositionBias(
    Tensor positions, Tensor memory_positions, Dimension heads,
    RelativePositionOptions options = {},
    std::source_location location = std::source_location::current());

// The slope of each head of ALiBi (Press et al., 2022): 2^(-8 i / n) for the
// heads i = 1..n if n is a power of 2. Otherwise those of the next lower power
// of 2, then every second one of the next higher.
std::vector<double> AlibiSlopes(int64_t heads);

// ALiBi, attention with linear biases (Press et al., 2022): minus the distance
// of query and key, in both directions, times the slope of the head.
//
//   // -> f32 [heads, length, memory_length]
//   Tensor bias = nn::AlibiBias(positions, memory_positions, heads);
//
// Records kInvalidArgument in the graph if positions are not integers or have
// `heads`. Returns an empty Tensor if both are empty.
Tensor AlibiBias(
    Tensor positions, Tensor memory_positions, Dimension heads,
    std::source_location location = std::source_location::current());

}  // namespace mtf::nn

#endif  // NN_ATTENTION_POSITION_BIAS_H_
