// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_EMULATED_STREAMS_H_
#define BACKENDS_CUDA_EMULATED_STREAMS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "backends/cuda/runtime.h"

namespace mtf::cuda {

// In which order the emulated GPU runs what its two streams leave open. A
// program is right only if every order gives the same numbers: one that lacks a
// wait, or gives memory away too early, is found out by some.
enum class StreamOrder : uint8_t {
  kAsEnqueued,  // at once, as if there were one stream
  kSideLate,    // the second stream only when something waits for it
  kSideEarly,   // the first stream only when the second has nothing to do
  kRandom,      // by a seed
};

// Waits for all that is enqueued on the emulated GPU, and orders what comes.
// While nothing is recorded.
void SetStreamOrder(StreamOrder order, uint32_t seed = 0);

// What was enqueued between EnterSide and LeaveSide: the first stream has come
// to its begin, the second to its end.
struct EmulatedSideWork : public SideWork {
  // How often each was enqueued, and reached.
  int64_t begins = 0, begun = 0, ends = 0, ended = 0;
};

// Two queues of work that wait for each other. For one thread at a time.
class EmulatedStreams {
 public:
  using Work = std::function<absl::Status()>;
  enum class Kind : uint8_t {
    kWork,
    kBegin,         // of the first stream: EnterSide
    kWaitForBegin,  // of the second
    kEnd,           // of the second: LeaveSide
    kWaitForEnd,    // of the first: WaitForSide
  };
  // What can be enqueued again and again.
  struct Entry {
    Kind kind = Kind::kWork;
    bool side = false;  // of work
    Work work = {};
    std::shared_ptr<EmulatedSideWork> mark = {};
  };

  void SetOrder(StreamOrder order, uint32_t seed);
  void Enqueue(const Entry& entry);
  // Runs all that is enqueued.
  void Finish();
  // The first error since the last call.
  absl::Status TakeError();

 private:
  struct Queued {
    Entry entry;
    int64_t number = 0;  // of a mark: which time it is
  };
  // Until both streams are empty, or the first.
  void Run(bool all);
  bool IsReady(const std::deque<Queued>& stream) const;
  void RunFirst(std::deque<Queued>& stream);
  void Keep(const absl::Status& status);

  StreamOrder order_ = StreamOrder::kSideLate;
  std::mt19937 random_;
  std::deque<Queued> first_, side_;
  absl::Status error_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_EMULATED_STREAMS_H_
