// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/mpi/mpi_process.h"

#include <mpi.h>
#include <stdlib.h>

#include <chrono>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "backends/communicators/job_watch.h"
#include "backends/communicators/mpi/mpi_call.h"

namespace mtf {
namespace {

constexpr auto kGrace = std::chrono::seconds(2);

// Used only by exiting ranks, so that it carries no other pending messages.
MPI_Comm exit_comm = MPI_COMM_NULL;

// Called first when this process exits.
void (*on_end)(int status) = nullptr;

// Whether every rank reaches its exit handler within kGrace.
bool AllExit() {
  MPI_Request request;
  if (MPI_Ibarrier(exit_comm, &request) != MPI_SUCCESS) return false;
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  int done = 0;
  while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
    if (done) return true;
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

void EndMpi(int status, void*) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  on_end(status);
  const WatchedWait wait("MPI_Finalize");
  if (status != 0 && !AllExit()) MPI_Abort(MPI_COMM_WORLD, status);
  if (status == 0) {
    // Join the barrier of AllExit of ranks that fail while this one succeeds;
    // a rank in MPI_Finalize could not.
    MPI_Request request;
    if (MPI_Ibarrier(exit_comm, &request) == MPI_SUCCESS) {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  MPI_Finalize();
}

}  // namespace

absl::Status StartMpi(void (*at_exit)(int status)) {
  StartJobWatch();
  on_end = at_exit;
  int initialized = 0, finalized = 0;
  MTF_RETURN_IF_MPI_ERROR(MPI_Initialized(&initialized));
  MTF_RETURN_IF_MPI_ERROR(MPI_Finalized(&finalized));
  if (finalized) {
    return absl::FailedPreconditionError(
        "MPI has been finalised in this process and cannot be started again");
  }
  int provided = MPI_THREAD_SINGLE;
  if (initialized) {
    MTF_RETURN_IF_MPI_ERROR(MPI_Query_thread(&provided));
  } else {
    {
      const WatchedWait wait("MPI_Init");
      MTF_RETURN_IF_MPI_ERROR(
          MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    }
    const WatchedWait wait("the creation of the first communicator");
    MTF_RETURN_IF_MPI_ERROR(MPI_Comm_dup(MPI_COMM_WORLD, &exit_comm));
    MTF_RETURN_IF_MPI_ERROR(
        MPI_Comm_set_errhandler(exit_comm, MPI_ERRORS_RETURN));
    if (on_exit(EndMpi, nullptr) != 0) {
      return absl::ResourceExhaustedError("cannot register an exit handler");
    }
  }
  if (provided < MPI_THREAD_FUNNELED) {
    return absl::FailedPreconditionError(
        absl::StrCat(MpiLibraryName(), " provides thread level ", provided,
                     ", kernels with ", "threads need MPI_THREAD_FUNNELED (",
                     MPI_THREAD_FUNNELED, ")",
                     "\n  help  call MPI_Init_thread instead of MPI_Init"));
  }
  return absl::OkStatus();
}

std::string MpiLibraryName() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all = text;
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace mtf
