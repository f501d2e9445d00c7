// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"

#if MTF_HAS_MPI
#include "backends/communicators/mpi/mpi_call.h"
#include "backends/communicators/mpi/mpi_runtime.h"
#include "mtf/status.h"
#endif

namespace mtf {

#if MTF_HAS_MPI

namespace {

class MpiCommunicator : public GroupedCommunicator {
 public:
  static absl::StatusOr<std::unique_ptr<Communicator>> Create(
      const Mesh& mesh) {
    MTF_ASSIGN_OR_RETURN(MpiRuntime * runtime, MpiRuntime::Get());
    if (mesh.num_devices() != runtime->size()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "mesh \"", mesh.ToString(), "\" has ", mesh.num_devices(),
          " devices, but ", runtime->size(), " ranks are running\n  help  ",
          "start with mtfrun -n ", mesh.num_devices(),
          ", or give an axis the size -1 for the remaining ranks"));
    }
    std::unique_ptr<MpiCommunicator> communicator(
        new MpiCommunicator(mesh, *runtime));
    communicator->KeepPositions(runtime->positions());
    MTF_RETURN_IF_ERROR(communicator->OpenWorld());
    return communicator;
  }

  RankPlacement placement() const override { return runtime_.placement(); }
  bool can_wait_forever() const override { return runtime_.has_messages(); }

 protected:
  absl::StatusOr<GroupCollectives*> MakeCollectives(
      const Group& group) override {
    return runtime_.Collectives(mesh(), group);
  }

 private:
  MpiCommunicator(const Mesh& mesh, MpiRuntime& runtime)
      : GroupedCommunicator(mesh, runtime.rank()), runtime_(runtime) {}

  MpiRuntime& runtime_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateMpiCommunicator(
    const Mesh& mesh) {
  return MpiCommunicator::Create(mesh);
}

absl::StatusOr<int64_t> MpiWorldSize() {
  MTF_ASSIGN_OR_RETURN(const MpiRuntime* runtime, MpiRuntime::Get());
  return runtime->size();
}

void AbortAllRanks(int exit_code) {
  std::cout.flush();
  std::cerr.flush();
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

#else

namespace {

absl::Status NoMpi() {
  return absl::UnimplementedError(
      "this build has no MPI\n  help  install libopenmpi-dev and configure "
      "with -DMTF_WITH_MPI=ON");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateMpiCommunicator(
    const Mesh&) {
  return NoMpi();
}

absl::StatusOr<int64_t> MpiWorldSize() { return NoMpi(); }

void AbortAllRanks(int exit_code) {
  std::cout.flush();
  std::cerr.flush();
  std::_Exit(exit_code);
}

#endif

}  // namespace mtf
