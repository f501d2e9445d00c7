// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_CONVOLUTION_SPEC_H_
#define LOWERING_PROGRAM_CONVOLUTION_SPEC_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "lowering/program/convolution_problem.h"
#include "lowering/program/program.h"

namespace mtf {

// A convolution whose operands and result are values of a program.
struct ConvolutionSpec : ConvolutionProblem {
  int input = -1, filter = -1, output = -1;  // values of the program
  // The distances in memory between neighbours of the filter: along g, o, c,
  // then the windows in the order of `spatial`.
  std::vector<int64_t> filter_strides;
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
// Requires one float dtype and even shards of spatial dimensions, because the
// rows of uneven ones end with padding that windows read as zeros.
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
