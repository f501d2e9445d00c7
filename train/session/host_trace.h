// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_HOST_TRACE_H_
#define TRAIN_SESSION_HOST_TRACE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"

namespace mtf::train {

// What the threads of a process do beside the steps of a session, such as
// reading data, for the trace of its first steps. Each thread is a row below
// the first rank of the process, on the same clock as the instructions.
// Thread-safe.
//
//   const HostTrace::Clock::time_point begin = HostTrace::Clock::now();
//   ReadBatch(batch);
//   session.host_trace().Add("reader", "read batch 3", begin,
//                            HostTrace::Clock::now());
class HostTrace {
 public:
  using Clock = std::chrono::steady_clock;

  // For the process whose first rank is `rank`. One that is not `open` drops
  // its events.
  HostTrace(int64_t rank, bool open) : rank_(rank), open_(open) {}

  // Adds an event to the row of the calling thread. The row has the name that
  // its first event gives to the thread, with a number if another thread has
  // it. The events of a thread may be nested, but must not overlap otherwise.
  void Add(absl::string_view thread, absl::string_view event,
           Clock::time_point begin, Clock::time_point end);

  // Returns the events since the last call, as StepTrace::events() does
  // (backends/executor/trace.h).
  std::string Take();
  // Drops the events from here on.
  void Close();

 private:
  const int64_t rank_;
  std::mutex mutex_;
  bool open_;
  std::string events_;
  std::map<std::thread::id, int64_t> rows_;  // from 1: row 0 has the steps
  std::map<std::string, int64_t> threads_;   // by name
};

}  // namespace mtf::train

#endif  // TRAIN_SESSION_HOST_TRACE_H_
