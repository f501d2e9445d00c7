// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COLLECTIVE_KERNEL_H_
#define BACKENDS_COLLECTIVE_KERNEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/communicator.h"

namespace mtf {

// A collective bound to its buffers: packs blocks so that each is contiguous,
// lets the communicator move them, unpacks. Nothing is packed where the cut
// dimension is the outermost.
class CollectiveKernel {
 public:
  virtual ~CollectiveKernel() = default;
  virtual absl::Status Run() = 0;
};

// Bytes of scratch that a collective needs to pack into and to unpack from.
struct StagingBytes {
  int64_t before = 0;
  int64_t after = 0;
};
StagingBytes StagingBytesOf(const Program& program,
                            const Instruction& instruction);

// `before` and `after` are at least as large as StagingBytesOf says. Opens the
// group of the collective: every rank prepares the same ones in the same order.
absl::StatusOr<std::unique_ptr<CollectiveKernel>> PrepareCollectiveKernel(
    const Binding& binding, Device& device, Communicator& communicator,
    void* before, void* after);

}  // namespace mtf

#endif  // BACKENDS_COLLECTIVE_KERNEL_H_
