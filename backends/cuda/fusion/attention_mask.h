// SPDX-License-Identifier: Apache-2.0
//
// Attention masks, converted to the one additive bias that libraries support.
#ifndef BACKENDS_CUDA_FUSION_ATTENTION_MASK_H_
#define BACKENDS_CUDA_FUSION_ATTENTION_MASK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/runtime.h"
#include "lowering/fusion/attention_group.h"

namespace mtf::cuda {

// The bias of a masked position. It is finite, since a row of infinities is NaN
// and libraries process parts of rows. It absorbs any score added to it, so
// that the exponential is 0 if the row has any other position, and stays finite
// in libraries that compute powers of two.
inline constexpr float kUnseen = -0x1p100f;

// Writes the float32 bias for the problem of `group` and, for each of its rows,
// the first visible position, or `memory` if there is none. `visible` and
// `added` are null if the group has no such mask.
//
// Added values are clamped to kUnseen / 2; -infinity means masked.
absl::StatusOr<Launch> PrepareAttentionBias(Runtime& runtime,
                                            const AttentionGroup& group,
                                            const BoundValue* visible,
                                            const BoundValue* added,
                                            float* bias, int* first_seen);

// Writes zeros to output rows without a visible position, to which a library
// assigns some mean of the values, and stats so large that their weights are 0
// in the backward pass.
absl::StatusOr<Launch> PrepareMaskedRows(Runtime& runtime,
                                         const AttentionProblem& problem,
                                         const int* first_seen, void* o,
                                         float* stats);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ATTENTION_MASK_H_
