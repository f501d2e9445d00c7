// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_FUSION_ATTENTION_PROBLEM_H_
#define LOWERING_FUSION_ATTENTION_PROBLEM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "mtf/dtype.h"

namespace mtf {

// Scaled dot product attention on one device, in the terms that libraries of
// fused kernels take:
//
//   o = softmax(scale * q k^T + bias, where a place sees) v
//
// for each of batch and heads; backward, d_q, d_k and d_v from q, k, v, o, d_o
// and a number per row that forward leaves, the logarithm of its sum.
struct AttentionProblem {
  // Places between neighbours along batch, heads and length; d has stride 1.
  struct Strides {
    int64_t batch = 0, heads = 0, length = 0;
    friend bool operator==(const Strides&, const Strides&) = default;
  };
  // What is added to the scores: float32, dense in the order of batch, heads,
  // length and memory; of the first three it has those that are set, and one
  // place for all along the others.
  struct Bias {
    bool given = false, batch = false, heads = false, length = false;
    friend bool operator==(const Bias&, const Bias&) = default;
  };
  DType dtype = kBFloat16;
  int64_t batch = 1, heads = 1, length = 1, memory = 1, d = 64;
  Strides q, k, v, o;  // gradients are strided as what they belong to
  float scale = 1;     // of q * k
  Bias bias;
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
  // gradients too, a number per row, and the bias, which is also written before
  // it goes forward; nothing else of length times memory.
  int64_t Bytes() const;
  // Elements of the bias, and its rows of `memory` elements; 0 where none is.
  int64_t BiasElements() const { return BiasRows() * memory; }
  int64_t BiasRows() const;

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
// floats, d a multiple of 8 up to 256, lengths above 1. The scale is positive.
absl::Status CheckFusedAttention(const AttentionProblem& problem);

}  // namespace mtf

#endif  // LOWERING_FUSION_ATTENTION_PROBLEM_H_
