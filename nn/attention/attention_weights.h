// SPDX-License-Identifier: Apache-2.0
//
// Attention whose logits are a tensor, for layers that change logits or weights
// between the two products. Not for users. Its memory is quadratic in the
// lengths; DotProductAttention is the function for plain attention.
#ifndef NN_ATTENTION_ATTENTION_WEIGHTS_H_
#define NN_ATTENTION_ATTENTION_WEIGHTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/dimension.h"
#include "mtf/shape.h"
#include "mtf/tensor.h"
#include "nn/attention/attention.h"

namespace mtf::nn::internal {

// What such a layer attends to: `x` itself, renamed, if `memory` is empty.
struct Sides {
  Tensor x, memory;
  Dimension d_model, d_memory;
};

// Checks `x`, `memory` and the options, and completes .memory_length.
absl::StatusOr<Sides> SidesOf(Tensor x, Tensor memory,
                              AttentionOptions& options,
                              absl::string_view what);

// Checks that options which only DotProductAttention has are not set: .groups,
// .rotary.
absl::Status CheckPlain(const AttentionOptions& options);

// 1 / sqrt(size), or the scale of the options.
double ScaleOf(const AttentionOptions& options, const Dimension& d_kv);

// The f32 logits with the soft cap, bias and masks of the options.
Tensor MaskedLogits(Tensor logits, const AttentionOptions& options);

// The softmax of logits over .memory_length, with dropout, in `dtype`.
Tensor WeightsOf(Tensor logits, const AttentionOptions& options, DType dtype);

}  // namespace mtf::nn::internal

#endif  // NN_ATTENTION_ATTENTION_WEIGHTS_H_
