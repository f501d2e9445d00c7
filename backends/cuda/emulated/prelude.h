// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_EMULATED_PRELUDE_H_
#define BACKENDS_CUDA_EMULATED_PRELUDE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace mtf::cuda {

// Functions that a kernel calls back.
struct EmulatedCalls {
  // Waits for all threads of the block.
  void (*sync_threads)();
  // Publishes `value` to the lanes of the warp and returns the value of `lane`.
  // All lanes must call it.
  uint64_t (*shuffle)(uint64_t value, int lane);
};

// The entry points of a compiled kernel. The epilogue of its text defines one,
// called kEmulatedEntry.
struct EmulatedKernel {
  // Runs one thread, or one after the other if none waits for another.
  void (*run_thread)(void* const* arguments);
  void (*run_block)(void* const* arguments);
  unsigned* thread;      // threadIdx.x
  unsigned* block;       // blockIdx.x
  unsigned* block_size;  // blockDim.x
  unsigned* grid_size;   // gridDim.x
  const EmulatedCalls** calls;
  char** dynamic_shared;
  char *shared_begin, *shared_end;  // its __shared__ variables
};

// The part of CUDA's vocabulary that our kernels use, in C++ for the host. Goes
// before the text of a kernel.
absl::string_view EmulationPrelude();
// Goes after the text.
std::string EmulationEpilogue(absl::string_view kernel,
                              absl::string_view entry);

// Whether a kernel uses barriers or shuffles.
bool HasBarriers(absl::string_view text);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_EMULATED_PRELUDE_H_
