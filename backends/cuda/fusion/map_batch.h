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

// One kernel for a group of maps (lowering/passes/batch_maps.h). A block of
// threads works on a segment of one section. A thread reads each operand of an
// element once, applies the maps of the section and writes the results that
// others read. Sections that differ only in addresses and sizes share their
// text, so the text of an optimizer's kernel does not grow with the number of
// parameters.
//
// Null if buffers overlap in a way that the kernel does not support.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareMapBatch(
    Runtime& runtime, const MapGroup& group, absl::Span<const Binding> members);

// The kernel's text and shape, for tests; nullopt as above.
struct MapBatchSource {
  KernelSource source;
  LaunchShape shape;
  std::vector<int64_t> table;  // the contents of its parameter
};
std::optional<MapBatchSource> WriteMapBatch(const MapGroup& group,
                                            absl::Span<const Binding> members);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_FUSION_MAP_BATCH_H_
