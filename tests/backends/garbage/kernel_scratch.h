// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_BACKENDS_GARBAGE_KERNEL_SCRATCH_H_
#define TESTS_BACKENDS_GARBAGE_KERNEL_SCRATCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "tests/backends/garbage.h"

namespace mtf::testing {

// Creates the device called `name`, with one thread. If it is a GPU or an
// emulated one, KernelScratch can see its scratch memory.
absl::StatusOr<std::unique_ptr<Device>> CreateDeviceWithVisibleScratch(
    const std::string& name);

// The memory that kernels of one device use for intermediate results.
class KernelScratch {
 public:
  // Calls `prepare` and keeps the addresses of scratch memory that the GPU
  // device reserves in it.
  template <class Prepare>
  auto Watch(const Prepare& prepare) {
    std::vector<Block>* const outer = std::exchange(watching_, &blocks_);
    auto result = prepare();
    watching_ = outer;
    return result;
  }

  // Fills the first `bytes` of each scratch memory of the calling thread and of
  // `device`, at most 256 KiB; also the stack and free memory of the heap.
  absl::Status Fill(Device& device, Garbage garbage,
                    int64_t bytes = 256 << 10) const;

 private:
  friend class ScratchRuntime;
  struct Block {
    void* data;
    int64_t bytes;
  };
  static thread_local std::vector<Block>* watching_;
  std::vector<Block> blocks_;
};

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_GARBAGE_KERNEL_SCRATCH_H_
