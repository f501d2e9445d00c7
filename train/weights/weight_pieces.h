// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_WEIGHTS_WEIGHT_PIECES_H_
#define TRAIN_WEIGHTS_WEIGHT_PIECES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "mtf/dtype.h"
#include "mtf/shape.h"
#include "nn/models/weight_map.h"
#include "train/checkpoint/element_range.h"

namespace mtf::train {

// A rectangular range of a tensor of published weights, and where its elements
// are in a range of a parameter.
struct WeightPiece {
  int tensor = 0;        // index in ParameterWeights::tensors
  ElementRanges ranges;  // of the tensor
  // The elements of the range in row-major order are numbered by counters of
  // these sizes; element (i, j, ...) is at offset + i * strides[0] + ... of the
  // range of the parameter, which is row-major, too.
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;

  int64_t num_elements() const { return NumElements(ranges); }
};

// The pieces of which the elements `wanted` of a parameter of `shape` consist,
// each element in one. There is one piece, or one for each tensor, unless a
// layout shards a dimension that is not the first of those merged in the file.
// No pieces if `wanted` is empty.
std::vector<WeightPiece> PiecesOf(const nn::ParameterWeights& weights,
                                  const Shape& shape,
                                  const ElementRanges& wanted);

// `piece` as several, in the order of the file, of at most `elements` each, at
// least one.
std::vector<WeightPiece> BlocksOf(const WeightPiece& piece, int64_t elements);

// Copies the elements of a piece in row-major order to the range of the
// parameter, whose elements are floats of `dtype`.
void ScatterPiece(const WeightPiece& piece, absl::Span<const float> elements,
                  DType dtype, void* parameter);
// Copies the elements of a piece in row-major order from the range of the
// parameter.
void GatherPiece(const WeightPiece& piece, absl::Span<const float> parameter,
                 absl::Span<float> elements);

}  // namespace mtf::train

#endif  // TRAIN_WEIGHTS_WEIGHT_PIECES_H_
