// SPDX-License-Identifier: Apache-2.0
//
// A device on which all memory that must not change a result holds garbage.
// Results of programs on it depend on the garbage only if a kernel, a fused
// group or a collective reads what is not data.
#ifndef TESTS_BACKENDS_GARBAGE_GARBAGE_DEVICE_H_
#define TESTS_BACKENDS_GARBAGE_GARBAGE_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lowering/passes/padding_fills.h"
#include "tests/backends/forwarding_device.h"
#include "tests/backends/garbage.h"
#include "tests/backends/garbage/kernel_scratch.h"

namespace mtf::testing {

// Memory that holds garbage:
//   * new memory, and 1 KiB before and after it, where any change is reported
//     as a failure of the test when the memory is freed;
//   * before each kernel: its results, unless they share memory with operands;
//     the padding of its operands, except what lowering knows and relies on;
//     scratch memory of the device, the stack, and free memory of the heap.
//
// Steps must not be recorded: run each executor once.
class GarbageDevice : public ForwardingDevice {
 public:
  // The device called `name`, with one thread.
  static absl::StatusOr<std::unique_ptr<GarbageDevice>> Create(
      const std::string& name, Garbage garbage);

  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* data) override;
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(
      const Binding& binding) override;
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(
      const FusedGroup& group, absl::Span<const Binding> members) override;

  // Groups that became kernels.
  int groups() const { return groups_; }

 private:
  class FillingKernel;
  // What to fill before a kernel.
  struct Memory {
    std::vector<std::pair<void*, int64_t>> results;  // addresses and bytes
    // The offsets of elements of an operand that may hold anything.
    struct Padding {
      BoundValue operand;
      std::vector<int64_t> offsets;
    };
    std::vector<Padding> padding;
  };

  GarbageDevice(std::unique_ptr<Device> device, Garbage garbage)
      : ForwardingDevice(std::move(device)), garbage_(garbage) {}

  const PaddingFills& FillsOf(const Program& program);
  Memory MemoryOf(absl::Span<const Binding> bindings);
  absl::Status Fill(const Memory& memory);
  std::vector<char> NextGarbage(DType dtype, int64_t bytes) {
    return GarbageBytes(garbage_, dtype, bytes, ++seed_);
  }

  const Garbage garbage_;
  uint64_t seed_ = 0;
  // By address: the bytes of the memory, and what surrounds it.
  struct Allocation {
    int64_t bytes = 0;
    std::vector<char> before, behind;
  };
  std::map<void*, Allocation> allocations_;
  KernelScratch scratch_;
  int groups_ = 0;
  std::map<const Program*, std::unique_ptr<PaddingFills>> fills_;
};

}  // namespace mtf::testing

#endif  // TESTS_BACKENDS_GARBAGE_GARBAGE_DEVICE_H_
