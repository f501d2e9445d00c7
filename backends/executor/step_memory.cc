// SPDX-License-Identifier: Apache-2.0
#include "backends/executor/step_memory.h"

#include "mtf/status.h"

namespace mtf {

absl::StatusOr<void*> StepMemory::Reserve(Use use, int64_t bytes) {
  Buffer& buffer = buffers_[use];
  if (buffer.data != nullptr && buffer.bytes >= bytes) return buffer.data;
  if (buffer.data != nullptr) {
    // Freed first: the two need not fit into the device together.
    device_.Free(buffer.data);
    buffer = {};
    ++replacements_;
  }
  MTF_ASSIGN_OR_RETURN(buffer.data, device_.Allocate(bytes));
  buffer.bytes = bytes;
  return buffer.data;
}

int64_t StepMemory::bytes() const {
  int64_t bytes = 0;
  for (const Buffer& buffer : buffers_) bytes += buffer.bytes;
  return bytes;
}

void StepMemory::Release() {
  for (Buffer& buffer : buffers_) {
    if (buffer.data == nullptr) continue;
    device_.Free(buffer.data);
    buffer = {};
    ++replacements_;
  }
}

}  // namespace mtf
