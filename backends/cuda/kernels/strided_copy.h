// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_KERNELS_STRIDED_COPY_H_
#define BACKENDS_CUDA_KERNELS_STRIDED_COPY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"
#include "backends/strided_loops.h"
#include "mtf/dtype.h"

namespace mtf::cuda {

// Copies elements between two layouts, converting floats if the dtypes differ:
// element [i, j, ...] of the loops goes from offset i * from_i + j * from_j +
// ... to offset i * to_i + j * to_j + ...
struct StridedCopy {
  using Loop = StridedLoop;
  DType from_dtype = kFloat32, to_dtype = kFloat32;
  std::vector<Loop> loops;  // outermost first
  // Elements that are copied as one; extents and strides then count packs.
  int pack = 1;

  int64_t elements() const {
    int64_t n = 1;
    for (const Loop& loop : loops) n *= loop.extent;
    return n;
  }
  friend bool operator==(const StridedCopy&, const StridedCopy&) = default;
};

// Removes loops of extent 1, orders loops by the strides written and merges
// neighbours where the strides of both sides allow it.
StridedCopy Folded(StridedCopy copy);
// Widens the accesses of a folded copy to up to 16 bytes where both sides are
// contiguous and `addresses`, the bitwise or of both, is aligned.
StridedCopy Packed(StridedCopy copy, uintptr_t addresses);

// The kernel text for a folded copy, and its launch shape.
KernelSource StridedCopySource(const StridedCopy& copy);
LaunchShape StridedCopyShape(const StridedCopy& copy);

absl::StatusOr<std::unique_ptr<Kernel>> PrepareStridedCopy(
    Runtime& runtime, const StridedCopy& copy, const void* from, void* to);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_STRIDED_COPY_H_
