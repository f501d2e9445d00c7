// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_EXECUTOR_COLLECTIVE_KERNEL_H_
#define BACKENDS_EXECUTOR_COLLECTIVE_KERNEL_H_

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

// Opens the groups of all collectives of `program`. Collective: every rank
// brings the same program, before it does anything that may fail on it alone,
// such as to reserve memory; the others would wait for its groups for ever.
absl::Status OpenGroups(const Program& program, Communicator& communicator);

// `before` and `after` are at least as large as StagingBytesOf says. The group
// of the collective is open, so this needs no other rank.
absl::StatusOr<std::unique_ptr<CollectiveKernel>> PrepareCollectiveKernel(
    const Binding& binding, Device& device, Communicator& communicator,
    void* before, void* after);

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_COLLECTIVE_KERNEL_H_
