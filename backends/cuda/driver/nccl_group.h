// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_DRIVER_NCCL_GROUP_H_
#define BACKENDS_CUDA_DRIVER_NCCL_GROUP_H_

#include <nccl.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cuda/driver/gpu.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

class CudaNcclGroup;

// The cliques of one process. A thread that waits for the GPU polls for failed
// cliques, because the GPU itself would wait for them forever.
class NcclGroups {
 public:
  NcclGroups(Gpu& gpu, double timeout) : gpu_(gpu), timeout_(timeout) {}

  absl::StatusOr<std::string> NewId();
  absl::StatusOr<std::unique_ptr<NcclGroup>> Join(const std::string& id,
                                                  int size, int rank);
  absl::StatusOr<std::unique_ptr<NcclGroup>> Split(NcclGroup& parent, int color,
                                                   int key);

  bool empty();
  // The first error of any clique; all of them are then aborted.
  absl::Status Poll();
  // An error if a clique has been aborted.
  absl::Status CheckNotAborted();
  // Aborts all cliques, so that no enqueued work waits for another process.
  void Abort();
  double timeout() const { return timeout_; }

 private:
  friend class CudaNcclGroup;
  void Remove(CudaNcclGroup* group);
  absl::StatusOr<std::unique_ptr<NcclGroup>> Add(ncclComm_t communicator);

  Gpu& gpu_;
  const double timeout_;  // seconds; 0 waits forever
  std::mutex mutex_;
  std::vector<CudaNcclGroup*> groups_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_DRIVER_NCCL_GROUP_H_
