// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_MPI_MPI_COLLECTIVES_H_
#define BACKENDS_COMMUNICATORS_MPI_MPI_COLLECTIVES_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/communicators/collective_call.h"
#include "backends/communicators/group_collectives.h"

namespace mtf {

// The collectives of a group that spans hosts, by MPI messages.
//
// MPI only moves bytes here. Reductions are ours: each rank receives its part
// from all, adds in the order of places and sends the sum to all. That is as
// many bytes as MPI's own all-reduce sends at best, and gives the bits that
// every other communicator gives; MPI's depend on the algorithm that it picks
// by size and by number of ranks.
class MpiCollectives : public GroupCollectives {
 public:
  // One MPI call moves `chunk_bytes` at most; its counts are ints.
  MpiCollectives(const Communicator::Group& group, MPI_Comm comm,
                 int64_t chunk_bytes);

  absl::Status AllReduce(absl::Span<const Communicator::Piece> pieces,
                         DType dtype, ReduceKind kind) override;
  absl::Status AllGather(const void* in, void* out, int64_t bytes) override;
  absl::Status ReduceScatter(const void* in, void* out, int64_t count,
                             DType dtype, ReduceKind kind) override;
  absl::Status AllToAll(const void* in, void* out, int64_t bytes) override;
  absl::Status Permute(const void* in, void* out, int64_t bytes, int source,
                       int destination) override;
  absl::Status Barrier() override;

 private:
  // All ranks say what they are about to do, and that it is the same.
  absl::Status Announce(const CollectiveCall& call);

  // Sends `bytes` at `in + p * in_stride` to each place p, and puts what comes
  // from place p at `out + p * out_stride`. `in_stride` 0 sends the same to
  // all.
  absl::Status ExchangeBlocks(const std::byte* in, int64_t in_stride,
                              std::byte* out, int64_t out_stride,
                              int64_t bytes);
  absl::Status SendReceive(const void* in, int destination, void* out,
                           int source, int64_t bytes);

  const Communicator::Group group_;
  const int size_;
  const int place_;
  const MPI_Comm comm_;
  const int64_t chunk_bytes_;
  std::vector<std::byte> mine_, theirs_;  // scratch, grown as needed
};

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_MPI_MPI_COLLECTIVES_H_
