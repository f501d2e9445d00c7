// SPDX-License-Identifier: Apache-2.0
//
// Masks of attention as the one bias that libraries take.
#ifndef BACKENDS_CUDA_FUSION_ATTENTION_MASK_H_
#define BACKENDS_CUDA_FUSION_ATTENTION_MASK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/codegen/kernel_writer.h"
#include "backends/cuda/runtime.h"
#include "lowering/fusion/attention_group.h"

namespace mtf::cuda {

// What a bias has where a place is not seen. It is finite, since a row of
// infinities is NaN and libraries work on parts of rows; what is added to it is
// lost, so that the exponential is 0 wherever a row has anything else; and it
// stays finite where a library counts in powers of two.
inline constexpr float kUnseen = -0x1p100f;

// Writes the bias of the problem of `group`, float32, and for each row of it
// the first place that is seen, or `memory` where none is. `visible` and
// `added` are null where the group has none.
//
// The least that is added is kUnseen / 2, and -infinity is a place that is not
// seen.
absl::StatusOr<Launch> PrepareAttentionBias(Runtime& runtime,
                                            const AttentionGroup& group,
                                            const BoundValue* visible,
                                            const BoundValue* added,
                                            float* bias, int* first_seen);

// Writes zeros for the rows that see nothing, which a library gives some mean
// of the values, and stats so large that backward all their weights are 0.
absl::StatusOr<Launch> PrepareBlindRows(Runtime& runtime,
                                        const AttentionProblem& problem,
                                        const int* first_seen, void* o,
                                        float* stats);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ATTENTION_MASK_H_
