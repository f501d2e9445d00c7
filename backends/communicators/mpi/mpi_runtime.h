// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_MPI_MPI_RUNTIME_H_
#define BACKENDS_COMMUNICATORS_MPI_MPI_RUNTIME_H_

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/communicator.h"
#include "backends/communicators/group_barrier.h"
#include "backends/communicators/group_collectives.h"
#include "backends/rank_position.h"

namespace mtf {

// MPI in this process. Communicators and shared windows are created once per
// group of ranks and kept until the process exits: freeing one is collective,
// and would hang if one of its ranks has failed.
class MpiRuntime {
 public:
  // Initialises MPI unless the program has done so. The first call is
  // collective over all ranks.
  //
  // Environment variables; if ranks differ, the smallest value applies to all:
  //   MTF_MPI_SHARED_WINDOW=0  ranks of one host also use MPI messages
  //   MTF_MPI_CHUNK_BYTES      most bytes that one MPI call moves (2^26)
  // kFailedPrecondition under the launcher of another MPI library.
  static absl::StatusOr<MpiRuntime*> Get();

  int rank() const { return rank_; }
  int size() const { return size_; }
  const RankPlacement& placement() const { return placement_; }
  // The slots in which ranks publish their positions, by rank; null for ranks
  // of other hosts.
  const std::vector<RankPositionSlot*>& positions() const { return positions_; }
  // Whether some group uses MPI messages.
  bool has_messages() const { return has_messages_; }

  // The collectives of a group. Every rank of MPI_COMM_WORLD calls this for its
  // own group over the same axes. Returns the same object for the same mesh
  // sizes and axes.
  absl::StatusOr<GroupCollectives*> Collectives(
      const Mesh& mesh, const Communicator::Group& group);

 private:
  static MpiRuntime& OfProcess();
  static absl::Status Initialize(MpiRuntime& runtime);
  // Publishes that this process exits, if with status 0.
  static void End(int status);
  RankPositionSlot& own_slot() {
    return positions_.empty() ? own_position_ : *positions_[rank_];
  }
  absl::Status ReadOptions();
  absl::Status FindPlacement();
  absl::Status SharePositions(MPI_Comm host);
  // Null if the ranks of the group do not share memory.
  absl::StatusOr<std::unique_ptr<GroupCollectives>> MakeWindow(
      const Communicator::Group& group, MPI_Comm comm);

  int rank_ = 0;
  int size_ = 1;
  bool shared_window_ = true;
  int64_t chunk_bytes_ = 0;
  RankPlacement placement_;
  WaitPolicy wait_;
  bool has_messages_ = false;
  RankPositionSlot own_position_;
  std::vector<RankPositionSlot*> positions_;
  std::map<std::string, std::unique_ptr<GroupCollectives>> collectives_;
};

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_MPI_MPI_RUNTIME_H_
