// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_CONVOLUTION_SPEC_H_
#define LOWERING_PROGRAM_CONVOLUTION_SPEC_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "lowering/program/program.h"

namespace mtf {

// A convolution as libraries take it, or one of its gradients:
//
//   output[n, i..., g, o] = sum over w, c of
//       input[n, i * stride + w * dilation - before..., g, c] *
//       filter[g, o, c, w...]
//
// The members of a ConvolutionGroup compute one of the three values from the
// other two. Input and output are dense, in the order above.
struct ConvolutionSpec {
  enum class Computes : uint8_t { kOutput, kInput, kFilter };
  struct Spatial {
    int64_t input = 0, output = 0, window = 0;  // extents on one device
    int64_t stride = 1, dilation = 1;
    // Zeros before the input and, if positive, after it; if negative, elements
    // at the end that no window reads.
    int64_t before = 0, after = 0;
  };

  Computes computes = Computes::kOutput;
  int input = -1, filter = -1, output = -1;     // values of the program
  int64_t batch = 1;                            // n
  int64_t groups = 1, inputs = 1, outputs = 1;  // g; c and o of a group
  std::vector<Spatial> spatial;                 // at most three
  // The distances in memory between neighbours of the filter: along g, o, c,
  // then the windows in the order of `spatial`.
  std::vector<int64_t> filter_strides;

  // Multiplications and additions.
  int64_t flops() const;
};

// The convolution that `members`, instructions in ascending order, compute, or
// nothing. They form a chain in which each reads the result of the one before:
//
//   place_rows..., windows..., einsum        an output, or the gradient of a
//                                            filter if the windows remain
//   einsum, fold_windows..., place_rows...   the gradient of an input
//
// where a map that multiplies may take the part of the einsum, and place_rows
// adds zeros to an unsharded dimension, or removes what would be added to them.
// Requires f32 and even shards of spatial dimensions, because the rows of
// uneven ones end with padding that windows read as zeros.
std::optional<ConvolutionSpec> FindConvolution(const Program& program,
                                               absl::Span<const int> members);

// Whether an instruction multiplies two values as a convolution does: an
// einsum, or without channels to sum over a map.
bool IsProduct(const Instruction& instruction);

// Whether a place_rows only adds zeros to an unsharded dimension, or is the
// transpose of one.
bool IsZeroPadding(const Instruction& instruction);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_CONVOLUTION_SPEC_H_
