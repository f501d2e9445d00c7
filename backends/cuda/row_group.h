// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_ROW_GROUP_H_
#define BACKENDS_CUDA_ROW_GROUP_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// One kernel for a group that FindRowGroups found: softmax, layer norm, the
// sums of a loss. A warp or a block takes a row through all members; operands
// are read once into registers, or, where a row is too long for them, again
// from the cache; what nobody else reads is not written.
//
// In bits it is its parts but for the order of sums, which are in double.
//
// Null where the buffers do not allow it.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareRowGroup(
    Runtime& runtime, absl::Span<const Binding> members);

// The kernel's text and shape, for tests; nullopt as above.
struct RowGroupSource {
  KernelSource source;
  LaunchShape shape;
  std::vector<void*> pointers;  // its parameters
};
std::optional<RowGroupSource> WriteRowGroup(const GpuInfo& gpu,
                                            absl::Span<const Binding> members);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_ROW_GROUP_H_
