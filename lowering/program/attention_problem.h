// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_ATTENTION_PROBLEM_H_
#define LOWERING_PROGRAM_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "mtf/dtype.h"

namespace mtf {

// Scaled dot product attention on one device, as libraries of fused kernels
// describe it:
//
//   o = softmax(scale * q k^T + bias, where visible) v
//
// per batch element and head; backward, d_q, d_k and d_v from q, k, v, o, d_o
// and one number per row that the forward kernel leaves, the logarithm of its
// sum.
struct AttentionProblem {
  // Strides in elements along batch, heads and length; d has stride 1.
  struct Strides {
    int64_t batch = 0, heads = 0, length = 0;
    friend bool operator==(const Strides&, const Strides&) = default;
  };
  // The bias added to the scores: float32, dense in the order of batch, heads,
  // length and memory. It has those of the first three dimensions that are set
  // and is broadcast along the others.
  struct Bias {
    bool given = false, batch = false, heads = false, length = false;
    friend bool operator==(const Bias&, const Bias&) = default;
  };
  DType dtype = kBFloat16;
  int64_t batch = 1, heads = 1, length = 1, memory = 1, d = 64;
  Strides q, k, v, o;  // a gradient has the strides of its primal
  float scale = 1;     // of q * k
  Bias bias;
  bool causal = false;  // position i attends to memory up to i
  bool backward = false;
  // Bitwise reproducible, as replicas on several GPUs need; the backward kernel
  // is faster without.
  bool reproducible = true;

  // The floating point operations of the matrix products, over visible pairs
  // only: two products forward, five backward, one of which recomputes the
  // scores.
  double Flops() const;
  // The bytes that the kernel reads and writes: q, k, v, the output, one number
  // per row and the bias, which is also written before the forward kernel;
  // backward also the gradients. Nothing else of length times memory elements.
  int64_t Bytes() const;
  // The elements of the bias, and its rows of `memory` elements; 0 without
  // bias.
  int64_t BiasElements() const { return BiasRows() * memory; }
  int64_t BiasRows() const;

  // "bf16 batch 4 heads 12 length 1024 ...". Equal problems have equal texts.
  std::string ToString() const;
  friend bool operator==(const AttentionProblem&,
                         const AttentionProblem&) = default;
};

// Returns OK if fused kernels support the problem, else kUnimplemented with the
// reason. A library may support less on its device and reports that itself.
//
// The limits are those of cuDNN 9 (NVIDIA, "Attention", support matrix): 16-bit
// floats, d a multiple of 8 up to 256, lengths above 1. The scale is positive.
// The gradient has two more, for the kernels of GPUs of capability 9:
//
// * They process memory in tiles of 128. If half a tile is left, the gradient
//   may be NaN (NVIDIA, cudnn-frontend, pull request 628). Causal attention
//   with at most as many queries as keys never reads that half.
// * Causal attention has at most as many queries as keys: with more, the
//   gradient of the queries was 0 in one test on an H100 (cuDNN 9.19).
absl::Status CheckFusedAttention(const AttentionProblem& problem);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_ATTENTION_PROBLEM_H_
