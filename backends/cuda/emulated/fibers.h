// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_EMULATED_FIBERS_H_
#define BACKENDS_CUDA_EMULATED_FIBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/emulated/prelude.h"

namespace mtf::cuda {

// Runs the threads of a block as fibers of the calling thread. Each runs until
// it has to wait for others, then the next one runs. A barrier or shuffle that
// some threads never reach is an error, which a GPU would not always report.
// Every second block runs its threads in reverse order, which reveals code that
// depends on the order.
class BlockRunner {
 public:
  BlockRunner() = default;
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Runs the block whose index is in the kernel's variables.
  absl::Status Run(const EmulatedKernel& kernel, void* const* arguments,
                   int threads, bool backwards);

 private:
  enum class State : uint8_t { kReady, kAtBarrier, kAtShuffle, kDone };
  struct Fiber {
    char* stack = nullptr;
    void* saved = nullptr;  // its stack pointer while it is suspended
    State state = State::kReady;
  };

  static void Enter();
  static void SyncThreads();
  static uint64_t Shuffle(uint64_t value, int lane);
  void Prepare(Fiber& fiber);
  void Yield(State state);
  // Resumes the fibers whose barrier or shuffle is complete; false if there are
  // none.
  bool Release(int threads);
  absl::Status DeadlockError(int threads) const;

  std::vector<Fiber> fibers_;
  void* scheduler_ = nullptr;
  int current_ = 0;
  const EmulatedKernel* kernel_ = nullptr;
  void* const* arguments_ = nullptr;
  // For the lanes of each warp: values of the current and of the last shuffle.
  std::vector<uint64_t> offered_, taken_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_EMULATED_FIBERS_H_
