// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/scratch.h"

#include <cstdlib>

#include "mtf/check.h"

namespace mtf::cpu {
namespace {

struct Buffer {
  void* data = nullptr;
  int64_t bytes = 0;
  ~Buffer() { std::free(data); }
};

thread_local Buffer buffers[kNumScratchUses];

}  // namespace

void* ThreadScratch(ScratchUse use, int64_t bytes) {
  Buffer& buffer = buffers[static_cast<int>(use)];
  if (bytes > buffer.bytes) {
    std::free(buffer.data);
    buffer.bytes = (bytes + 4095) / 4096 * 4096;
    buffer.data = std::aligned_alloc(64, buffer.bytes);
    MTF_CHECK(buffer.data != nullptr) << buffer.bytes << " bytes of scratch";
  }
  return buffer.data;
}

}  // namespace mtf::cpu
