// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_ROW_GROUP_H_
#define BACKENDS_CUDA_FUSION_ROW_GROUP_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/fusion/row_space.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"

namespace mtf::cuda {

// One kernel for a group that FindRowGroups found: softmax, layer norm, the
// sums of a loss and its gradient. A warp or a block takes a row through all
// members; operands are read once, into registers or, where a row is too long
// for them, into shared memory; of a row that is longer yet the rest is read
// again for each of the reductions. What nobody else reads is not written, and
// a result may lie over an operand of the same places.
//
// In bits it is its parts but for the order of sums, which are in float for a
// few elements and in double beyond. Sums over the rows themselves leave
// partial results in `scratch` for a second kernel (row_sums.h), stripe by
// stripe; how long a stripe is depends on the number of rows alone.
//
// Null where the buffers do not allow it, which the plan of the device does
// (FusedRows).
absl::StatusOr<std::unique_ptr<Kernel>> PrepareRowGroup(
    Runtime& runtime, Scratch& scratch, absl::Span<const Binding> members);

// The kernel's text and shape, for tests; nullopt as above.
struct RowGroupSource {
  KernelSource source;
  LaunchShape shape;
  std::vector<void*> pointers;  // its parameters, before that of `row_sums`
  // Members that sum over rows: the float32 results of `stripes` stripes one
  // after the other, of one such member behind those of another.
  std::vector<int> row_sums;
  int64_t stripes = 0;
  RowTiling::Kept kept = RowTiling::Kept::kNowhere;
  // Of memory; what is the same for all rows is counted once.
  int64_t bytes_read = 0, bytes_written = 0;
};
std::optional<RowGroupSource> WriteRowGroup(const GpuInfo& gpu,
                                            absl::Span<const Binding> members);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ROW_GROUP_H_
