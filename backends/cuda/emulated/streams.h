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

// The order in which the emulated GPU runs work that its two streams do not
// order. A program is correct only if every order gives the same numbers;
// missing waits and memory reused too early show in some order.
enum class StreamOrder : uint8_t {
  kAsEnqueued,  // at once, as if there were one stream
  kAsyncLate,   // the second stream only when something waits for it
  kAsyncEarly,  // the first stream only when the second has nothing to do
  kRandom,      // by a seed
};

// Waits for all enqueued work of the emulated GPU, then sets the order of later
// work. Not during a recording.
void SetStreamOrder(StreamOrder order, uint32_t seed = 0);

// Counts how often the first stream has reached the begin of some asynchronous
// work, and the second stream its end.
struct EmulatedAsyncWork : public AsyncWork {
  // The number of times that each was enqueued, and reached.
  int64_t begins = 0, begun = 0, ends = 0, ended = 0;
};

// Two queues of work that wait for each other. Not thread-safe.
class EmulatedStreams {
 public:
  using Work = std::function<absl::Status()>;
  enum class Kind : uint8_t {
    kWork,
    kBegin,         // EnterAsync, on the first stream
    kWaitForBegin,  // on the second stream
    kEnd,           // LeaveAsync, on the second stream
    kWaitForEnd,    // WaitForAsync, on the first stream
  };
  // An entry; recordings enqueue it repeatedly.
  struct Entry {
    Kind kind = Kind::kWork;
    bool asynchronous = false;  // kWork only
    Work work = {};
    std::shared_ptr<EmulatedAsyncWork> mark = {};
  };

  void SetOrder(StreamOrder order, uint32_t seed);
  void Enqueue(const Entry& entry);
  // Runs all enqueued work.
  void Finish();
  // The first error since the last call.
  absl::Status TakeError();

 private:
  struct Queued {
    Entry entry;
    int64_t number = 0;  // of a mark: its sequence number
  };
  // Runs until both streams are empty, or only the first.
  void Run(bool all);
  bool IsReady(const std::deque<Queued>& stream) const;
  void RunFirst(std::deque<Queued>& stream);
  void Keep(const absl::Status& status);

  StreamOrder order_ = StreamOrder::kAsyncLate;
  std::mt19937 random_;
  std::deque<Queued> first_, second_;
  absl::Status error_;
};

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_EMULATED_STREAMS_H_
