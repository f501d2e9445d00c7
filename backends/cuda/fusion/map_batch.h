// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_FUSION_MAP_BATCH_H_
#define BACKENDS_CUDA_FUSION_MAP_BATCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/backend.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// One kernel for a batch that FindMapBatches found. A block works on a stretch
// of one section; a thread reads each operand of an element once, takes it
// through the maps of the section and writes what others read. Sections that
// differ in nothing but addresses and sizes share their text, so the kernel of
// an optimizer is as long as its update, whatever the number of parameters.
//
// Null where the buffers do not allow it.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMapBatch(
    Runtime& runtime, absl::Span<const Binding> members);

// The kernel's text and shape, for tests; nullopt as above.
struct MapBatchSource {
  KernelSource source;
  LaunchShape shape;
  std::vector<int64_t> table;  // what its parameter points at
};
std::optional<MapBatchSource> WriteMapBatch(absl::Span<const Binding> members);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_MAP_BATCH_H_
