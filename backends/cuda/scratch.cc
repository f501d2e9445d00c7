// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/scratch.h"

#include <algorithm>

#include "mtf/status.h"

namespace mtf::cuda {

Scratch::~Scratch() {
  for (const auto& [data, bytes] : blocks_) runtime_.Free(data);
}

absl::StatusOr<void*> Scratch::Reserve(int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (blocks_.empty() || blocks_.back().second < bytes) {
    const int64_t least = blocks_.empty() ? 1 << 20 : 2 * blocks_.back().second;
    // Falls back to exactly `bytes` if there is no memory for a larger block.
    int64_t size = std::max(bytes, least);
    absl::StatusOr<void*> data = runtime_.Allocate(size);
    if (!data.ok() && size > bytes) {
      size = bytes;
      data = runtime_.Allocate(size);
    }
    if (!data.ok()) return data.status();
    blocks_.push_back({*data, size});
  }
  return blocks_.back().first;
}

}  // namespace mtf::cuda
