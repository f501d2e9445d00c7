// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_EMULATED_PRELUDE_H_
#define BACKENDS_CUDA_EMULATED_PRELUDE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace mtf::cuda {

// What a kernel calls of the machinery that runs it.
struct EmulatedCalls {
  // Waits for all threads of the block.
  void (*sync_threads)();
  // Hands `value` over among the lanes of a warp: all come, each gets that of
  // the lane it asks for.
  uint64_t (*exchange)(uint64_t value, int lane);
};

// How a compiled kernel is entered; the text behind the prelude ends with one
// of these, called kEmulatedEntry.
struct EmulatedKernel {
  // One thread, or all of a block in turn where none waits for another.
  void (*run_thread)(void* const* arguments);
  void (*run_block)(void* const* arguments);
  unsigned* thread;      // threadIdx.x
  unsigned* block;       // blockIdx.x
  unsigned* block_size;  // blockDim.x
  unsigned* grid_size;   // gridDim.x
  const EmulatedCalls** calls;
  char** dynamic_shared;
  char *shared_begin, *shared_end;  // what is declared __shared__
};

// CUDA's own vocabulary in C++ for the host, as far as kernels here use it:
// what comes before the text of a kernel.
absl::string_view EmulationPrelude();
// What comes behind it.
std::string EmulationEpilogue(absl::string_view kernel,
                              absl::string_view entry);

// Whether threads of a kernel wait for each other.
bool HasBarriers(absl::string_view text);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_EMULATED_PRELUDE_H_
