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

// Joins processes with a GPU each through NCCL: one clique of all ranks, from
// which each group over mesh axes is split. The id of the clique goes round by
// `host`. Collectives are enqueued; Synchronize is where their errors come out,
// and the runtime looks for those while it waits.
//
// kFailedPrecondition where ranks share a GPU (CheckOwnGpus). Collective.
absl::StatusOr<std::unique_ptr<Connection>> ConnectNccl(
    std::shared_ptr<Runtime> runtime, Communicator& host);

// A rank as NCCL tells it from others.
struct GpuSeat {
  std::string machine;     // the name of its host
  std::string gpu;         // what tells this GPU from others; "" where unknown
  std::string host_id;     // NCCL_HOSTID, or ""
  bool may_share = false;  // NCCL_MULTI_RANK_GPU_ENABLE is set

  std::string ToText() const;
  static GpuSeat FromText(absl::string_view text);
};

// kFailedPrecondition where two ranks have one GPU, which NCCL refuses with a
// message that does not say what to do. Allowed where every process has a
// NCCL_HOSTID of its own, which makes NCCL take them for two machines.
absl::Status CheckOwnGpus(absl::Span<const GpuSeat> seats);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_COMMUNICATORS_NCCL_H_
