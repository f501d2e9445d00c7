// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_COMMUNICATORS_CONNECTION_H_
#define BACKENDS_CUDA_COMMUNICATORS_CONNECTION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/backend.h"
#include "backends/communicator.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// The communicator of a rank's GPU. It moves device memory, and uses a host
// communicator for control messages, placement and positions. Collectives are
// enqueued, and complete when Synchronize returns.
class Connection : public Communicator {
 public:
  Connection(std::shared_ptr<Runtime> runtime, Communicator& host)
      : Communicator(host.mesh(), host.rank()),
        runtime_(std::move(runtime)),
        host_(host) {
    SharePositions(host);
  }

  // Implements Device::RunOrReplay and Device::Finish of this rank. The first
  // run of a segment is not recorded, because libraries initialize at first
  // use; the second is recorded. A replay counts its collectives like a run.
  virtual absl::Status RunOrReplay(const std::function<absl::Status()>& work,
                                   std::unique_ptr<Replay>& replay) = 0;
  virtual absl::Status Synchronize() = 0;

  RankPlacement placement() const override { return host_.placement(); }
  absl::StatusOr<StepError> Agree(const StepError& error) override {
    return host_.Agree(error);
  }
  absl::Status Barrier() override { return host_.Barrier(); }
  absl::StatusOr<std::vector<std::string>> AllGatherText(
      const std::string& text) override {
    return host_.AllGatherText(text);
  }

 protected:
  absl::Status DoCopy(const void* in, void* out, int64_t bytes) override {
    if (in != out && bytes > 0) runtime_->CopyOnDevice(out, in, bytes);
    return absl::OkStatus();
  }

  // Runs `work` and returns what it counted.
  absl::StatusOr<CollectiveCounts> Counted(
      const std::function<absl::Status()>& work);

  Runtime& runtime() { return *runtime_; }
  Communicator& host() { return host_; }

 private:
  std::shared_ptr<Runtime> runtime_;
  Communicator& host_;
};

// Connects `runtime` to those of the other ranks of `host`. Ranks of one
// process share it and use our own kernels (loopback.h); processes use NCCL
// (nccl.h). Collective. `host` must outlive the result.
//
// kFailedPrecondition if two processes have the same GPU, which NCCL does not
// support; errors of Runtime::JoinNccl.
absl::StatusOr<std::unique_ptr<Connection>> Connect(
    std::shared_ptr<Runtime> runtime, Communicator& host);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_COMMUNICATORS_CONNECTION_H_
