// SPDX-License-Identifier: Apache-2.0
//
// Masks and biases of attention, converted to the one additive bias that
// libraries support.
#ifndef BACKENDS_CUDA_KERNELS_ATTENTION_BIAS_H_
#define BACKENDS_CUDA_KERNELS_ATTENTION_BIAS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/runtime.h"
#include "lowering/program/fused_attention.h"

namespace mtf::cuda {

// The bias of a masked position. It is finite, since a row of infinities is NaN
// and libraries process parts of rows. It absorbs any score added to it, so
// that the exponential is 0 if the row has any other position, and stays finite
// in libraries that compute powers of two.
inline constexpr float kUnseen = -0x1p100f;

// A mask or a bias of an attention; without a value, there is none.
struct AttentionMask {
  const BoundValue* value = nullptr;
  LogitStrides strides;
};

// Writes the float32 bias of `problem` and, for each of its rows, the first
// visible position, or `memory` if there is none. Position j is visible where
// `visible` is true and `added` is not -infinity; added values are clamped to
// kUnseen / 2.
absl::StatusOr<Launch> PrepareAttentionBias(Runtime& runtime,
                                            const AttentionProblem& problem,
                                            const AttentionMask& visible,
                                            const AttentionMask& added,
                                            float* bias, int* first_seen);

// Writes zeros to output rows without a visible position, to which a library
// assigns some mean of the values, and -infinity to their stats.
absl::StatusOr<Launch> PrepareMaskedRows(Runtime& runtime,
                                         const AttentionProblem& problem,
                                         const int* first_seen, void* o,
                                         float* stats);

// Copies the stats of `rows` rows for the gradient. Those of rows without a
// visible position become so large that their weights are 0.
absl::StatusOr<Launch> PrepareRowStats(Runtime& runtime, int64_t rows,
                                       const float* from, float* to);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_ATTENTION_BIAS_H_
