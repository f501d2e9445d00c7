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
#include "mtf/dtype.h"

namespace mtf::cuda {

// Copies elements between two orders, converting floats where the dtypes
// differ: element [i, j, ...] of the loops goes from place i * from_i + j *
// from_j + ... to place i * to_i + j * to_j + ...
struct StridedCopy {
  struct Loop {
    int64_t extent = 1;
    int64_t from = 0, to = 0;  // strides in elements
    friend bool operator==(const Loop&, const Loop&) = default;
  };
  DType from_dtype = kFloat32, to_dtype = kFloat32;
  std::vector<Loop> loops;  // outermost first
  // Elements that are copied as one: extents and strides then count these.
  int pack = 1;

  int64_t elements() const {
    int64_t n = 1;
    for (const Loop& loop : loops) n *= loop.extent;
    return n;
  }
  friend bool operator==(const StridedCopy&, const StridedCopy&) = default;
};

// Without loops of one place, and with neighbours folded where the strides of
// both sides allow it; ordered by the strides written.
StridedCopy Folded(StridedCopy copy);
// A folded copy that takes up to 16 bytes at once, where both sides have them
// one behind the other and `addresses`, those of both together, allow it.
StridedCopy Packed(StridedCopy copy, uintptr_t addresses);

// The text of the kernel for a folded copy, and how it is launched.
KernelSource StridedCopySource(const StridedCopy& copy);
LaunchShape StridedCopyShape(const StridedCopy& copy);

absl::StatusOr<std::unique_ptr<Kernel>> PrepareStridedCopy(
    Runtime& runtime, const StridedCopy& copy, const void* from, void* to);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_KERNELS_STRIDED_COPY_H_
