// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_RANK_SET_H_
#define TRAIN_SESSION_RANK_SET_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/communicator.h"
#include "layouts/mesh.h"
#include "train/session/sign_in.h"

namespace mtf::train {

// Returns, on every rank, the first error by rank, or OK if all ranks pass OK.
// kAborted, the error of a rank that was released because another failed, is
// returned only if there is no other. For work that can fail on one rank only,
// so that the others do not wait for it forever. Collective.
absl::Status AgreeOnStatus(Communicator& communicator,
                           const absl::Status& status);

// Creates a communicator over all ranks of the job, independent of the mesh
// they form later. Each `purpose` has its own groups, distinct from those of
// any user mesh, so that its collectives do not mix with those of ranks still
// in a step.
enum class JobPurpose : uint8_t { kBeginAndEnd, kSession };
absl::StatusOr<std::unique_ptr<Communicator>> JobCommunicator(
    int size, JobPurpose purpose);

// The ranks of a mesh in this process: all ranks as threads, or, under a
// launcher, one rank.
class RankSet {
 public:
  // The most ranks that run as threads of one process.
  static constexpr int64_t kMaxLocalRanks = 256;

  // kInvalidArgument for more than kMaxLocalRanks; kResourceExhausted if the
  // process cannot create the threads; the errors of CreateMpiCommunicator.
  static absl::StatusOr<std::unique_ptr<RankSet>> Create(const Mesh& mesh,
                                                         bool launched);

  // Whether the ranks are processes, whose arguments may differ.
  bool launched() const { return mpi_ != nullptr; }

  // The number of ranks in this process, and the communicator of each.
  int size() const { return local_ ? static_cast<int>(mesh_size_) : 1; }
  Communicator& communicator(int i) {
    return local_ ? local_->communicator(i) : *mpi_;
  }

  // Calls `body` concurrently for each rank of this process and returns the
  // first error; exceptions become errors as in CatchExceptions. `i` is the
  // index of the rank in this process.
  using Body = std::function<absl::Status(int i, Communicator& communicator)>;
  absl::Status Run(const Body& body);

  // As Run, but every process of the job returns the same error. `body` must
  // not wait for other ranks, since a rank that fails would leave them waiting.
  absl::Status RunAgreed(const Body& body);

  // Has the processes of the job sign in for a call that all of them make
  // (sign_in.h). OK at once if the ranks are threads.
  absl::Status SignIn(uint64_t fingerprint,
                      absl::FunctionRef<JointCall()> call) {
    return local_ ? absl::OkStatus() : train::SignIn(*job_, fingerprint, call);
  }
  absl::Status SignIn(absl::string_view action) {
    return local_ ? absl::OkStatus() : train::SignIn(*job_, action);
  }

  // The first error by rank of the `status` of each process of the job.
  absl::Status Agree(const absl::Status& status) {
    return local_ ? status : AgreeOnStatus(*mpi_, status);
  }

 private:
  int64_t mesh_size_ = 1;
  // One of the two is set.
  std::unique_ptr<LocalRanks> local_;
  std::unique_ptr<Communicator> mpi_;
  std::unique_ptr<Communicator> job_;  // set with mpi_; for sign-ins
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_RANK_SET_H_
