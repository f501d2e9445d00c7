// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_CONVOLUTION_PROBLEM_H_
#define LOWERING_PROGRAM_CONVOLUTION_PROBLEM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "mtf/dtype.h"

namespace mtf {

// A convolution on one device as libraries take it, or one of its gradients:
//
//   output[n, i..., g, o] = sum over w, c of
//       input[n, i * stride + w * dilation - before..., g, c] *
//       filter[g, o, c, w...]
//
// One of the three is computed from the other two. All have one dtype; sums are
// in float32. Input and output are dense, in the order above.
struct ConvolutionProblem {
  enum class Computes : uint8_t { kOutput, kInput, kFilter };
  struct Spatial {
    int64_t input = 0, output = 0, window = 0;  // extents on one device
    int64_t stride = 1, dilation = 1;
    // Zeros before the input and, if positive, after it; if negative, elements
    // at the end that no window reads.
    int64_t before = 0, after = 0;
    friend bool operator==(const Spatial&, const Spatial&) = default;
  };

  DType dtype = kFloat32;
  Computes computes = Computes::kOutput;
  int64_t batch = 1;                            // n
  int64_t groups = 1, inputs = 1, outputs = 1;  // g; c and o of a group
  std::vector<Spatial> spatial;                 // at most three
  bool tf32 = false;  // a GPU may round float32 operands to 10 mantissa bits

  // Multiplications and additions.
  int64_t flops() const;
  int64_t InputElements() const;
  int64_t FilterElements() const;
  int64_t OutputElements() const;

  // "f32 output batch 8 inputs 64 outputs 64 ...". Equal problems have equal
  // texts.
  std::string ToString() const;
  friend bool operator==(const ConvolutionProblem&,
                         const ConvolutionProblem&) = default;
};

}  // namespace mtf

#endif  // LOWERING_PROGRAM_CONVOLUTION_PROBLEM_H_
