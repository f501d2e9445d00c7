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
// calls the communicator, unpacks. Needs no packing if the dimension that is
// split into blocks is the outermost.
class CollectiveKernel {
 public:
  virtual ~CollectiveKernel() = default;
  virtual absl::Status Run() = 0;
};

// Bytes of the staging buffers of a collective.
struct StagingBytes {
  int64_t before = 0;  // packed operands
  int64_t after = 0;   // results to unpack
};
StagingBytes StagingBytesOf(const Program& program,
                            const Instruction& instruction);

// Opens the groups of all collectives of `program`. Collective: every rank
// calls this with the same program, before anything that may fail on one rank
// only, such as an allocation; otherwise the other ranks would wait forever.
absl::Status OpenGroups(const Program& program, Communicator& communicator);

// Prepares a collective whose group is open. `before` and `after` are staging
// buffers of at least StagingBytesOf. Not collective.
absl::StatusOr<std::unique_ptr<CollectiveKernel>> PrepareCollectiveKernel(
    const Binding& binding, Device& device, Communicator& communicator,
    void* before, void* after);

}  // namespace mtf

#endif  // BACKENDS_EXECUTOR_COLLECTIVE_KERNEL_H_
