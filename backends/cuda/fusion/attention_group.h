// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_ATTENTION_GROUP_H_
#define BACKENDS_CUDA_FUSION_ATTENTION_GROUP_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"
#include "lowering/fusion/find_attention.h"

namespace mtf::cuda {

// The groups of FindAttention whose problems this GPU's libraries support.
std::vector<AttentionGroup> FindAttentionFor(Runtime& runtime,
                                             const Program& program);

// One kernel for the forward or the backward members of such a group, in a
// program with buffers planned by FusedGroups. A result that would overwrite an
// operand goes through `scratch`.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareAttentionGroup(
    Runtime& runtime, Scratch& scratch, absl::Span<const Binding> members,
    BindValue bind);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ATTENTION_GROUP_H_
