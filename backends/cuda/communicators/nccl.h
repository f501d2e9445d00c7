// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_COMMUNICATORS_NCCL_H_
#define BACKENDS_CUDA_COMMUNICATORS_NCCL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "backends/cuda/communicators/connection.h"

namespace mtf::cuda {

// Connects processes with a GPU each through NCCL: one clique of all ranks,
// from which the group over each set of mesh axes is split. `host` distributes
// the id of the clique. Collectives are enqueued; Synchronize reports their
// errors, which the runtime polls for while it waits.
//
// kFailedPrecondition if ranks share a GPU (CheckOwnGpus). Collective.
absl::StatusOr<std::unique_ptr<Connection>> ConnectNccl(
    std::shared_ptr<Runtime> runtime, Communicator& host);

// The properties by which NCCL distinguishes ranks.
struct GpuSeat {
  std::string machine;     // the name of its host
  std::string gpu;         // uuid; "" if unknown
  std::string host_id;     // NCCL_HOSTID, or ""
  bool may_share = false;  // NCCL_MULTI_RANK_GPU_ENABLE is set

  std::string ToText() const;
  static GpuSeat FromText(absl::string_view text);
};

// kFailedPrecondition, with a remedy, if two ranks have the same GPU, which
// NCCL refuses with an unhelpful message. Allowed if every process has its own
// NCCL_HOSTID, which makes NCCL treat them as different machines.
absl::Status CheckOwnGpus(absl::Span<const GpuSeat> seats);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_COMMUNICATORS_NCCL_H_
