// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_EMULATED_FIBERS_H_
#define BACKENDS_CUDA_EMULATED_FIBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/emulated/prelude.h"

namespace mtf::cuda {

// Runs the threads of a block as fibers of the calling thread: each until it
// waits for others, then the next. A barrier that some threads never reach, or
// a shuffle that some lanes never reach, is an error, which a GPU would not
// always tell. Every second block runs its threads from last to first, so that
// what only works in one order shows.
class BlockRunner {
 public:
  BlockRunner() = default;
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // The block whose number the kernel's variables hold already.
  absl::Status Run(const EmulatedKernel& kernel, void* const* arguments,
                   int threads, bool backwards);

 private:
  enum class State : uint8_t { kReady, kAtBarrier, kAtShuffle, kDone };
  struct Fiber {
    char* stack = nullptr;
    void* saved = nullptr;  // its stack pointer while it does not run
    State state = State::kReady;
  };

  static void Enter();
  static void SyncThreads();
  static uint64_t Exchange(uint64_t value, int lane);
  void Prepare(Fiber& fiber);
  void Yield(State state);
  // Lets go whoever has no one left to wait for. False where none is.
  bool Release(int threads);
  absl::Status Stuck(int threads) const;

  std::vector<Fiber> fibers_;
  void* scheduler_ = nullptr;
  int current_ = 0;
  const EmulatedKernel* kernel_ = nullptr;
  void* const* arguments_ = nullptr;
  // What the lanes of each warp hand over, and what was handed over last.
  std::vector<uint64_t> offered_, taken_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_EMULATED_FIBERS_H_
