// SPDX-License-Identifier: Apache-2.0
//
// Blocked attention ("flash attention", Dao et al. 2022): the logits exist only
// as blocks in the cache, so that memory is linear in the length.
#ifndef BACKENDS_CPU_ATTENTION_ATTENTION_H_
#define BACKENDS_CPU_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "mtf/attention.h"
#include "mtf/dtype.h"

namespace mtf::cpu {

// An operand or result of an attention. Strides are in elements, and 0 along
// dimensions that the tensor lacks.
struct AttentionTensor {
  void* data = nullptr;
  DType dtype = kFloat32;
  std::vector<int64_t> outer;  // strides, by CpuAttention::outer
  int64_t length = 0, memory = 0, depth = 0;

  bool given() const { return data != nullptr; }
};

// An attention bound to the buffers of one rank. The logits have the dimensions
// [outer..., length, memory]; sizes are those of the valid elements, and any
// may be 0. Elements beyond them are neither read nor written.
struct CpuAttention {
  // A dimension of the logits before length and memory: batch, heads.
  struct Outer {
    int64_t extent = 1;
    int64_t offset = 0;         // of the first element among those of all ranks
    int64_t global_stride = 0;  // in the row-major logits of all ranks
  };

  AttentionSpec spec;  // the names are not used
  std::vector<Outer> outer;
  int64_t length = 0, memory = 0, depth_kv = 0, depth_v = 0;
  // The global index of the first query and of the first key, and the distance
  // between those of consecutive queries, and of consecutive keys.
  int64_t length_offset = 0, memory_offset = 0;
  int64_t position_stride = 1;
  // Strides in the row-major logits of all ranks. With Outer::global_stride
  // they determine the random numbers of dropout.
  int64_t length_stride = 0, memory_stride = 1;

  // These and their gradients have one float dtype. Keys and values may lack
  // outer dimensions.
  AttentionTensor q, k, v;
  // Optional, each with any subset of its possible dimensions.
  AttentionTensor mask;         // bool [outer..., length, memory]
  AttentionTensor bias;         // float [outer..., length, memory]
  AttentionTensor offset;       // int32 [outer..., length]
  AttentionTensor extra_logit;  // float [outer..., length]
  // Results of the attention, operands of its gradient.
  AttentionTensor output;     // of any float dtype
  AttentionTensor logsumexp;  // kFloat32 [outer..., length]
  // Optional operands, kFloat32: the results of the attention for other keys,
  // or the gradient of q through them. The results are then for these keys,
  // too.
  AttentionTensor output_before, logsumexp_before, d_q_before;

  // Of the gradient only. A gradient has the dimensions and the dtype of its
  // tensor and is the sum over all other dimensions.
  AttentionTensor d_output;
  AttentionTensor d_logsumexp;  // optional
  AttentionTensor d_q, d_k, d_v;
  AttentionTensor d_bias, d_extra_logit;  // optional
};

// Prepares a kernel that writes `output` and `logsumexp`.
//
// float16 is computed in float, and so is bfloat16 on a CPU without
// instructions for it. Otherwise bfloat16 products have bfloat16 operands, for
// which the weights are rounded, and float sums.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareAttention(
    const CpuAttention& attention);

// Prepares a kernel that writes the gradients with respect to all operands,
// from the operands, the results and the gradients with respect to these. The
// logits are computed again from q and k, block by block.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareAttentionGradient(
    const CpuAttention& attention);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_ATTENTION_ATTENTION_H_
