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

namespace mtf::train {

// The first error by rank, on every rank; OK when all ranks bring OK. kAborted,
// the error of a rank freed because another failed, gives way to any other. For
// what can fail on one rank alone, so that no other waits for it for ever.
// Collective.
absl::Status AgreeOnStatus(Communicator& communicator,
                           const absl::Status& status);

// A communicator over all ranks of the job, whatever mesh they form later. Each
// `purpose` has groups of its own, which those of no mesh of a user share:
// ranks that meet here do not disturb others that are still in a step.
enum class JobPurpose : uint8_t { kBeginAndEnd, kSession };
absl::StatusOr<std::unique_ptr<Communicator>> JobCommunicator(
    int size, JobPurpose purpose);

// The ranks of a mesh that this process runs: all of them as threads, or the
// one that it is under a launcher.
class RankSet {
 public:
  // A mesh of more ranks than this is not run as threads of one process.
  static constexpr int64_t kMaxLocalRanks = 256;

  // kInvalidArgument for more than these; kResourceExhausted where the process
  // may not have so many threads; the errors of CreateMpiCommunicator.
  static absl::StatusOr<std::unique_ptr<RankSet>> Create(const Mesh& mesh,
                                                         bool launched);

  // Whether the ranks are processes, which may differ in what they were given.
  bool launched() const { return mpi_ != nullptr; }

  // How many ranks are here, and the communicator of each.
  int size() const { return local_ ? static_cast<int>(mesh_size_) : 1; }
  Communicator& communicator(int i) {
    return local_ ? local_->communicator(i) : *mpi_;
  }

  // Calls `body` for each of them at once and returns the first error among
  // them; what it throws is an error as of CatchExceptions. `i` counts the
  // ranks of this process.
  using Body = std::function<absl::Status(int i, Communicator& communicator)>;
  absl::Status Run(const Body& body);

  // As Run, and every process of the job returns the same. For a `body` that
  // does not wait for other ranks: one that fails would leave them waiting.
  absl::Status RunAgreed(const Body& body);

  // The first error of what each process of the job brings.
  absl::Status Agree(const absl::Status& status) {
    return local_ ? status : AgreeOnStatus(*mpi_, status);
  }

 private:
  int64_t mesh_size_ = 1;
  std::unique_ptr<LocalRanks> local_;  // or
  std::unique_ptr<Communicator> mpi_;
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_RANK_SET_H_
