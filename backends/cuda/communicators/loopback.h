// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_COMMUNICATORS_LOOPBACK_H_
#define BACKENDS_CUDA_COMMUNICATORS_LOOPBACK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "backends/cuda/communicators/connection.h"

namespace mtf::cuda {

// Joins n virtual devices: threads of one process that share one runtime, and
// so one stream. The threads meet at each collective; then all that makes its
// operands is enqueued, and one of them enqueues one kernel that works for the
// whole group. What follows is behind it in the stream. No data passes through
// the host and nothing waits on the GPU.
//
// Reductions add in the order of places and round as ReduceInOrder does
// (backends/communicators/reduce_in_order.h): the same bits as on CPUs.
//
// A step is recorded for all ranks at once, and one of them replays it.
// Collective, by ranks of one process.
absl::StatusOr<std::unique_ptr<Connection>> ConnectLoopback(
    std::shared_ptr<Runtime> runtime, Communicator& host);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_COMMUNICATORS_LOOPBACK_H_
