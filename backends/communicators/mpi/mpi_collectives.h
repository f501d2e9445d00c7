// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_MPI_MPI_COLLECTIVES_H_
#define BACKENDS_COMMUNICATORS_MPI_MPI_COLLECTIVES_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/communicators/collective_call.h"
#include "backends/communicators/group_collectives.h"

namespace mtf {

// The collectives of a group that spans hosts, by MPI messages.
//
// MPI only moves bytes. For a reduction each rank receives its share from all
// ranks, adds in rank order and sends the sum to all. This moves as many bytes
// as the best all-reduce of MPI and is bitwise equal to every other
// communicator; the bits of MPI's own all-reduce depend on the algorithm that
// it selects by message size and number of ranks.
class MpiCollectives : public GroupCollectives {
 public:
  // One MPI call moves at most `chunk_bytes`, because MPI counts are ints.
  // `slots` are those of the ranks of the job, by rank; null for ranks of other
  // hosts.
  MpiCollectives(const Communicator::Group& group, MPI_Comm comm,
                 int64_t chunk_bytes,
                 absl::Span<RankPositionSlot* const> slots);

  absl::Status AllReduce(absl::Span<const Communicator::ReduceBuffer> buffers,
                         DType dtype, ReduceKind kind) override;
  absl::Status AllGather(const void* in, void* out, int64_t bytes) override;
  absl::Status ReduceScatter(const void* in, void* out, int64_t count,
                             DType dtype, ReduceKind kind) override;
  absl::Status AllToAll(const void* in, void* out, int64_t bytes) override;
  absl::Status Permute(const void* in, void* out, int64_t bytes, int source,
                       int destination) override;
  absl::Status Barrier() override;
  // Unlike the others, does not wait forever.
  absl::StatusOr<bool> SignIn(uint64_t fingerprint) override;

 private:
  // Checks that all ranks of the group make the same call.
  absl::Status Announce(const CollectiveCall& call);

  // The ranks of this host that have begun fewer sign-ins than this rank.
  std::vector<int64_t> MissingFromSignIn() const;
  // A rank of this host that has ended and joins no sign-in of this rank.
  std::optional<int64_t> RankWaitedForInVain() const;
  // Waits until `request` completes, for at most `timeout` seconds (0: forever)
  // or until a missing rank has ended.
  absl::Status WaitForSignIns(MPI_Request* request, double timeout) const;

  // Sends `bytes` at `in + p * in_stride` to each rank p of the group and
  // stores the block received from rank p at `out + p * out_stride`. With
  // `in_stride` 0 every rank is sent the same block.
  absl::Status AllToAllBlocks(const std::byte* in, int64_t in_stride,
                              std::byte* out, int64_t out_stride,
                              int64_t bytes);
  absl::Status SendReceive(const void* in, int destination, void* out,
                           int source, int64_t bytes);

  const Communicator::Group group_;
  const int size_;
  const int index_;
  const MPI_Comm comm_;
  const int64_t chunk_bytes_;
  const absl::Span<RankPositionSlot* const> slots_;
  RankPositionSlot& own_slot_;
  // Of sign-ins: receives the calls of all ranks, also after this rank has
  // stopped waiting for them.
  CollectiveCall sent_;
  std::vector<CollectiveCall> received_;
  std::vector<std::byte> mine_, theirs_;  // scratch, grown as needed
};

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_MPI_MPI_COLLECTIVES_H_
