// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_COMMUNICATORS_LOOPBACK_H_
#define BACKENDS_CUDA_COMMUNICATORS_LOOPBACK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/cuda/communicators/connection.h"

namespace mtf::cuda {

// Connects n virtual devices: threads of one process that share a runtime and
// so a stream. The threads meet at each collective. Then all its operands are
// enqueued, and one thread enqueues one kernel that serves the whole group;
// later work follows it in the stream. No data passes through the host and
// nothing waits for the GPU.
//
// Reductions add in rank order and round as ReduceInOrder does
// (backends/communicators/reduce_in_order.h): the same bits as on CPUs.
//
// A step is recorded once for all ranks, and one of them replays it. Collective
// over the ranks of one process.
absl::StatusOr<std::unique_ptr<Connection>> ConnectLoopback(
    std::shared_ptr<Runtime> runtime, Communicator& host);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_COMMUNICATORS_LOOPBACK_H_
