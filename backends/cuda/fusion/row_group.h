// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_ROW_GROUP_H_
#define BACKENDS_CUDA_FUSION_ROW_GROUP_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/fusion/row_space.h"
#include "backends/cuda/runtime.h"
#include "backends/cuda/scratch.h"

namespace mtf::cuda {

// One kernel for a group of rows (lowering/passes/fuse_rows.h): softmax, layer
// norm, the sums of a loss and its gradient. A warp or a block takes a row
// through all members. Each operand is read once, into registers or, if a row
// is too long for them, into shared memory; the part of a row that exceeds
// shared memory is read again for each reduction. Only results with readers
// outside are written, and a result may share memory with an operand of the
// same elements.
//
// The bits are those of the single instructions except for the order of sums,
// which are in float32 for a few elements and in double beyond. Sums over the
// rows themselves leave partial results in `scratch`, one per stripe of rows,
// for a second kernel (row_sums.h); the length of a stripe depends on the
// number of rows only.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareRowGroup(
    Runtime& runtime, Scratch& scratch, absl::Span<const Binding> members);

// The kernel's text and shape, for tests.
struct RowGroupSource {
  KernelSource source;
  LaunchShape shape;
  std::vector<void*> pointers;  // its parameters, except that of `row_sums`
  // Members that sum over rows. Their partial results are float32 [member,
  // stripe, column].
  std::vector<int> row_sums;
  int64_t stripes = 0;
  RowTiling::Kept kept = RowTiling::Kept::kNowhere;
  // Memory traffic; values that are the same for all rows count once.
  int64_t bytes_read = 0, bytes_written = 0;
};
RowGroupSource WriteRowGroup(const GpuInfo& gpu,
                             absl::Span<const Binding> members);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_ROW_GROUP_H_
