// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/mpi/mpi_runtime.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/communicators/job_watch.h"
#include "backends/communicators/launcher.h"
#include "backends/communicators/mpi/mpi_call.h"
#include "backends/communicators/mpi/mpi_collectives.h"
#include "backends/communicators/mpi/mpi_process.h"
#include "backends/communicators/mpi/shared_memory.h"
#include "backends/communicators/shared_memory_collectives.h"
#include "backends/communicators/wait_options.h"
#include "mtf/status.h"

namespace mtf {
namespace {

constexpr int64_t kLine = 64;

// Two segments per rank fit into the second-level cache together with the data
// copied through them.
constexpr int64_t kSegmentBytes = 128 << 10;

constexpr int64_t kDefaultChunkBytes = 64 << 20;
constexpr int64_t kLargestChunkBytes = 1 << 30;  // counts are ints

}  // namespace

MpiRuntime& MpiRuntime::OfProcess() {
  // Never destroyed: exit handlers may still use it.
  static MpiRuntime* runtime = new MpiRuntime;
  return *runtime;
}

absl::StatusOr<MpiRuntime*> MpiRuntime::Get() {
  static const absl::Status status = Initialize(OfProcess());
  if (!status.ok()) return status;
  return &OfProcess();
}

void MpiRuntime::End(int status) {
  // A failed process aborts the job (mpi_process.h). Ranks that it released
  // before would exit too, and their status could become that of the job.
  if (status != 0) return;
  OfProcess().own_slot().state.store(RankState::kExited,
                                     std::memory_order_release);
}

absl::Status MpiRuntime::Initialize(MpiRuntime& runtime) {
  MTF_RETURN_IF_ERROR(StartMpi(&End));
  const WatchedWait wait("the placement of the ranks");
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_rank(MPI_COMM_WORLD, &runtime.rank_));
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_size(MPI_COMM_WORLD, &runtime.size_));
  MTF_RETURN_IF_ERROR(
      CheckLauncher(DetectLauncher(), runtime.size_, MpiLibraryName()));
  MTF_RETURN_IF_ERROR(runtime.ReadOptions());
  return runtime.FindPlacement();
}

absl::Status MpiRuntime::ReadOptions() {
  const char* window = std::getenv("MTF_MPI_SHARED_WINDOW");
  const char* chunk = std::getenv("MTF_MPI_CHUNK_BYTES");
  int64_t options[2] = {1, kDefaultChunkBytes};
  // An invalid value is encoded as -1, so that all ranks see it in the minimum.
  if (window != nullptr && (!absl::SimpleAtoi(window, &options[0]) ||
                            options[0] < 0 || options[0] > 1)) {
    options[0] = -1;
  }
  if (chunk != nullptr &&
      (!absl::SimpleAtoi(chunk, &options[1]) || options[1] < kLine ||
       options[1] > kLargestChunkBytes)) {
    options[1] = -1;
  }
  MTF_RETURN_IF_MPI_ERROR(MPI_Allreduce(MPI_IN_PLACE, options, 2, MPI_INT64_T,
                                        MPI_MIN, MPI_COMM_WORLD));
  if (options[0] < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "MTF_MPI_SHARED_WINDOW is \"", window == nullptr ? "" : window,
        "\" on rank ", rank_, "; every rank needs 0 or 1"));
  }
  if (options[1] < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("MTF_MPI_CHUNK_BYTES is \"", chunk == nullptr ? "" : chunk,
                     "\" on rank ", rank_, "; every rank needs ", kLine, " to ",
                     kLargestChunkBytes));
  }
  shared_window_ = options[0] == 1;
  chunk_bytes_ = options[1];
  return absl::OkStatus();
}

absl::Status MpiRuntime::FindPlacement() {
  MPI_Comm host;
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_split_type(
      MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host));
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_size(host, &placement_.local_ranks));
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_rank(host, &placement_.local_rank));
  // Ranks may be bound to separate cores or share all of them: take the union.
  cpu_set_t job;
  CPU_ZERO(&job);
  if (sched_getaffinity(0, sizeof(job), &job) != 0) CPU_SET(0, &job);
  MTF_RETURN_IF_MPI_ERROR(MPI_Allreduce(MPI_IN_PLACE, &job, sizeof(job),
                                        MPI_UNSIGNED_CHAR, MPI_BOR, host));
  MTF_RETURN_IF_ERROR(SharePositions(host));
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_free(&host));
  const int job_cores = CPU_COUNT(&job);
  placement_.threads =
      ThreadsPerRank(placement_.local_ranks, AllowedCores(), job_cores);
  placement_.warning =
      BindingWarning(placement_.local_ranks, AllowedCores(), LaunchedCores());
  wait_ = WaitOptions(placement_.local_ranks, job_cores);
  return absl::OkStatus();
}

absl::Status MpiRuntime::SharePositions(MPI_Comm host) {
  std::vector<int> ranks(placement_.local_ranks);
  MTF_RETURN_IF_MPI_ERROR(
      MPI_Allgather(&rank_, 1, MPI_INT, ranks.data(), 1, MPI_INT, host));
  positions_.resize(size_);
  positions_[rank_] = &own_position_;
  MTF_ASSIGN_OR_RETURN(
      void* const memory,
      MakeSharedMemory(
          host, static_cast<int64_t>(ranks.size() * sizeof(RankPositionSlot))));
  if (memory == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < ranks.size(); ++i) {
    positions_[ranks[i]] = static_cast<RankPositionSlot*>(memory) + i;
  }
  return absl::OkStatus();
}

absl::StatusOr<GroupCollectives*> MpiRuntime::Collectives(
    const Mesh& mesh, const Communicator::Group& group) {
  // Meshes of the same sizes have the same groups, whatever their axis names.
  std::string key = absl::StrCat(absl::StrJoin(group.axes, ","), " of");
  for (const MeshAxis& axis : mesh.axes())
    absl::StrAppend(&key, " ", axis.size);
  std::unique_ptr<GroupCollectives>& collectives = collectives_[key];
  if (collectives != nullptr) return collectives.get();
  const WatchedWait wait(
      group.ranks.size() == static_cast<size_t>(size_)
          ? "the creation of the communicator of all ranks"
          : absl::StrCat("the creation of communicators over mesh axes ",
                         mesh.AxisNames(group.axes)));
  // The first rank of the group is its color.
  MPI_Comm comm;
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_split(
      MPI_COMM_WORLD, static_cast<int>(group.ranks[0]), group.index, &comm));
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  if (shared_window_) {
    MTF_ASSIGN_OR_RETURN(collectives, MakeWindow(group, comm));
  }
  if (collectives == nullptr) {
    collectives =
        std::make_unique<MpiCollectives>(group, comm, chunk_bytes_, positions_);
    has_messages_ = true;
  }
  return collectives.get();
}

absl::StatusOr<std::unique_ptr<GroupCollectives>> MpiRuntime::MakeWindow(
    const Communicator::Group& group, MPI_Comm comm) {
  const int size = static_cast<int>(group.ranks.size());
  MPI_Comm host;
  int host_size = 0;
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_split_type(
      comm, MPI_COMM_TYPE_SHARED, group.index, MPI_INFO_NULL, &host));
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_size(host, &host_size));
  MTF_RETURN_IF_MPI_ERROR(MPI_Comm_free(&host));
  // Ranks may differ in how many of the group share their host.
  MTF_RETURN_IF_MPI_ERROR(
      MPI_Allreduce(MPI_IN_PLACE, &host_size, 1, MPI_INT, MPI_MIN, comm));
  if (host_size < size) return nullptr;

  SharedMemoryCollectives::Options options;
  options.segment_bytes = kSegmentBytes;
  options.slots = positions_;
  options.wait = wait_;
  // The timeout may have been set after FindPlacement.
  options.wait.timeout_seconds = CollectiveTimeout();
  const int64_t bytes =
      SharedMemoryCollectives::MemoryBytes(size, &options.segment_bytes);
  MTF_ASSIGN_OR_RETURN(void* const memory, MakeSharedMemory(comm, bytes));
  if (memory == nullptr) {
    if (group.index == 0) {
      static std::once_flag reported;
      std::call_once(reported, [&] {
        std::cerr << "mtf: " << size << " ranks from rank " << rank_
                  << " on cannot allocate " << bytes
                  << " bytes of shared memory and use MPI messages, which are "
                     "slower; check the size of /dev/shm"
                  << std::endl;
      });
    }
    return nullptr;
  }
  return std::make_unique<SharedMemoryCollectives>(group, memory, options);
}

}  // namespace mtf
