// SPDX-License-Identifier: Apache-2.0
//
// A fake NCCL: ranks are threads, their GPU memory is host memory, and failures
// are injected.
#ifndef TESTS_BACKENDS_CUDA_FAKE_NCCL_H_
#define TESTS_BACKENDS_CUDA_FAKE_NCCL_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/matmul/matmul_choices.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda::testing {

struct FakeClique;

// State shared by the ranks of a test.
struct FakeFabric {
  // Faults: the rank whose JoinNccl, SplitNccl or EndRecording fails, and the
  // rank whose GPU has lost the others.
  int fails_to_join = -1;
  int fails_to_split = -1;
  int fails_to_record = -1;
  std::atomic<int> stuck{-1};
  // Whether each group reduces in its own order, as NCCL may.
  bool own_orders = false;
  // By rank: its matmul library, or none.
  std::vector<MatmulLibrary*> matmuls;
  // Whether the GPUs record (replays do nothing), and the number of replays.
  bool records = false;
  std::atomic<int> replays{0};

  std::mutex mutex;
  std::map<std::string, std::shared_ptr<FakeClique>> cliques;
};

std::shared_ptr<Runtime> MakeFakeGpu(FakeFabric& fabric, int rank,
                                     const std::string& uuid);

}  // namespace mtf::cuda::testing

#endif  // TESTS_BACKENDS_CUDA_FAKE_NCCL_H_
