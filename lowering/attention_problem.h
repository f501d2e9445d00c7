// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_ATTENTION_PROBLEM_H_
#define LOWERING_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "mtf/dtype.h"

namespace mtf {

// Scaled dot product attention on one device, in the terms that libraries of
// fused kernels take:
//
//   o = softmax(scale * q k^T, where a place sees) v
//
// for each of batch and heads; backward, d_q, d_k and d_v from q, k, v, o, d_o
// and a number per row that forward leaves, the logarithm of its sum.
struct AttentionProblem {
  // Places between neighbours along batch, heads and length; d has stride 1.
  struct Strides {
    int64_t batch = 0, heads = 0, length = 0;
    friend bool operator==(const Strides&, const Strides&) = default;
  };
  DType dtype = kBFloat16;
  int64_t batch = 1, heads = 1, length = 1, memory = 1, d = 64;
  Strides q, k, v, o;   // gradients are strided as what they belong to
  float scale = 1;      // of q * k
  bool causal = false;  // place i sees memory up to i
  bool backward = false;
  // The same bits at every run, as replicas on several GPUs need; the other way
  // is faster backward.
  bool reproducible = true;

  // What its matrix products compute: forward two, backward these five, of
  // which one is made again for what forward has not kept; only between places
  // that see each other.
  double Flops() const;
  // What a kernel reads and writes: q, k, v and the output, backward their
  // gradients too, and a number per row; nothing of length times memory.
  int64_t Bytes() const;

  // "bf16 batch 4 heads 12 length 1024 ..."; equal texts, equal problems.
  std::string ToString() const;
  friend bool operator==(const AttentionProblem&,
                         const AttentionProblem&) = default;
};

// Whether fused kernels take such a problem on any device that has them;
// kUnimplemented with the reason where they do not. A library may want more of
// a problem on its device, which it says itself.
//
// The limits are those of cuDNN 9 (NVIDIA, "Attention", support matrix): 16-bit
// floats, d a multiple of 8 up to 256, lengths above 1.
absl::Status CheckFusedAttention(const AttentionProblem& problem);

}  // namespace mtf

#endif  // LOWERING_ATTENTION_PROBLEM_H_
