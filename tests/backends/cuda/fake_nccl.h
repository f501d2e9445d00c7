// SPDX-License-Identifier: Apache-2.0
//
// NCCL where there is none: ranks are threads, their GPUs the host's memory,
// and what NCCL may do wrong happens when it is asked for.
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

// What the ranks of a test share.
struct FakeFabric {
  // Faults: the rank whose JoinNccl, SplitNccl or EndRecording fails; the rank
  // whose GPU has lost the others.
  int fails_to_join = -1;
  int fails_to_split = -1;
  int fails_to_record = -1;
  std::atomic<int> stuck{-1};
  // Whether each group reduces in an order of its own, as NCCL may.
  bool own_orders = false;
  // By rank, what its GPU multiplies by; none: it does not.
  std::vector<MatmulLibrary*> matmuls;
  // Whether the GPUs record, which is to say that work runs when it is replayed
  // and does nothing; and how often one has replayed.
  bool records = false;
  std::atomic<int> replays{0};

  std::mutex mutex;
  std::map<std::string, std::shared_ptr<FakeClique>> cliques;
};

std::shared_ptr<Runtime> MakeFakeGpu(FakeFabric& fabric, int rank,
                                     const std::string& uuid);

}  // namespace mtf::cuda::testing

#endif  // TESTS_BACKENDS_CUDA_FAKE_NCCL_H_
