// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/threads.h"

#include <omp.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"

namespace mtf::cpu {
namespace {

// How long a thread that waits looks for work before it sleeps: longer than the
// gap between two kernels, much shorter than a time slice of the system.
// OMP_WAIT_POLICY changes it as it would for OpenMP.
std::chrono::microseconds SpinTime() {
  const char* variable = std::getenv("OMP_WAIT_POLICY");
  const absl::string_view policy = variable == nullptr ? "" : variable;
  if (policy == "passive" || policy == "PASSIVE") {
    return std::chrono::microseconds(0);
  }
  const bool active = policy == "active" || policy == "ACTIVE";
  return std::chrono::microseconds(active ? 100000 : 100);
}

// Waits until `value` differs from `old`; returns its new value.
template <class T>
T WaitForChange(const std::atomic<T>& value, T old) {
  static const std::chrono::microseconds spin_time = SpinTime();
  const auto end = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < 32; ++i) {
      const T now = value.load(std::memory_order_acquire);
      if (now != old) return now;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

thread_local int thread_index = 0;
thread_local bool is_in_pieces = false;

// A thread that calls Run, and its helpers. Each of them has a share of the
// pieces and takes its own first, for its caches, then those that others have
// not begun. A helper that comes late finds nothing to do and is not missed.
class ThreadPool {
 public:
  explicit ThreadPool(int threads) : shares_(threads) {
    for (int i = 1; i < threads; ++i) {
      // Without a thread the others do its work.
      try {
        helpers_.emplace_back([this, i] { Help(i); });
      } catch (const std::system_error&) {
        break;
      }
    }
  }
  ~ThreadPool() {
    stops_.store(true, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
  }

  int threads() const { return static_cast<int>(shares_.size()); }

  void Run(int threads, int pieces, absl::FunctionRef<void(int)> run) {
    run_ = &run;
    pieces_ = pieces;
    threads_ = threads;
    unfinished_.store(pieces, std::memory_order_relaxed);
    ++job_;
    for (int i = 0; i < threads; ++i) {
      shares_[i].state.store(job_ << 32 | (First(i + 1) - First(i)),
                             std::memory_order_release);
    }
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    TakePieces(0);
    int left = unfinished_.load(std::memory_order_acquire);
    while (left != 0) left = WaitForChange(unfinished_, left);
  }

 private:
  // The job and the number of pieces that nobody has taken, in one word, so
  // that a thread that is late cannot take a piece of another job.
  struct alignas(64) Share {
    std::atomic<uint64_t> state = 0;
  };

  int First(int share) const {
    return static_cast<int>(int64_t{pieces_} * share / threads_);
  }

  // Takes a piece of `share` and returns its number, or -1 if none is left. Run
  // returns only after the piece is finished, so the members that it has set
  // stay valid until then.
  int Take(int share) {
    std::atomic<uint64_t>& state = shares_[share].state;
    uint64_t seen = state.load(std::memory_order_acquire);
    while ((seen & UINT32_MAX) != 0) {
      if (state.compare_exchange_weak(seen, seen - 1,
                                      std::memory_order_acquire)) {
        return First(share + 1) - static_cast<int>(seen & UINT32_MAX);
      }
    }
    return -1;
  }

  void TakePieces(int thread) {
    thread_index = thread;
    is_in_pieces = true;
    for (int i = 0; i < threads(); ++i) {
      const int share = (thread + i) % threads();
      for (int piece = Take(share); piece >= 0; piece = Take(share)) {
        (*run_)(piece);
        if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
          unfinished_.notify_one();
        }
      }
    }
    is_in_pieces = false;
    thread_index = 0;
  }

  void Help(int thread) {
    omp_set_num_threads(1);
    uint32_t seen = 0;
    for (;;) {
      seen = WaitForChange(epoch_, seen);
      if (stops_.load(std::memory_order_relaxed)) return;
      TakePieces(thread);
    }
  }

  std::vector<Share> shares_;
  // Of the present job.
  const absl::FunctionRef<void(int)>* run_ = nullptr;
  int pieces_ = 0, threads_ = 1;
  uint64_t job_ = 0;
  alignas(64) std::atomic<int> unfinished_ = 0;
  alignas(64) std::atomic<uint32_t> epoch_ = 0;  // counts jobs
  std::atomic<bool> stops_ = false;
  std::vector<std::thread> helpers_;  // last, because they use all others
};

thread_local int num_threads = 1;
thread_local std::unique_ptr<ThreadPool> pool;

}  // namespace

void UseThreads(int threads) {
  num_threads = std::max(1, std::min(threads, omp_get_thread_limit()));
  omp_set_num_threads(1);
}

int NumThreads() { return is_in_pieces ? 1 : num_threads; }

int ThreadIndex() { return thread_index; }

void internal::RunPieces(int pieces, absl::FunctionRef<void(int)> run) {
  const int threads = std::min(NumThreads(), pieces);
  if (threads <= 1) {
    for (int i = 0; i < pieces; ++i) run(i);
    return;
  }
  if (pool == nullptr || pool->threads() != num_threads) {
    pool = nullptr;
    pool = std::make_unique<ThreadPool>(num_threads);
  }
  pool->Run(threads, pieces, run);
}

}  // namespace mtf::cpu
