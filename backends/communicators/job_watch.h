// SPDX-License-Identifier: Apache-2.0
//
// A deadline for the waits of a process that cannot time out by themselves, in
// MPI_Init and other calls of MPI, and the start of all ranks: a thread watches
// them and ends the job with one message that names the missing ranks.
#ifndef BACKENDS_COMMUNICATORS_JOB_WATCH_H_
#define BACKENDS_COMMUNICATORS_JOB_WATCH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace mtf {

// Starts to watch this process, one rank of a job. The ranks of a host sign in
// in a shared file, from which a waiting rank reads which ranks have started
// and how far each has come; it is deleted once all have signed in. Call this
// as early as possible; later calls, and those of a job of one rank, do
// nothing.
void StartJobWatch();

// While alive, this rank waits for others in `phase`, "MPI_Init", which all
// ranks go through in the same order. After CollectiveTimeout() seconds the job
// ends with status 75 and a message, on the first rank of the host to time out:
//
//   DEADLINE_EXCEEDED rank 2 has not come to MPI_Init (process 812, stopped)
//     waited   rank 0 waited 30 s
//
// Not for several threads. A WatchedWait within another has no effect.
class WatchedWait {
 public:
  explicit WatchedWait(absl::string_view phase);
  ~WatchedWait();
  WatchedWait(const WatchedWait&) = delete;

 private:
  bool outermost_;
};

// True for the first caller among the ranks of this host, which prints the
// error that ends the job; the others stay silent.
bool ClaimReport();

// Ends the job with `exit_code`. Prints `text` if no other rank has printed an
// error (ClaimReport), else gives that one time to end the job.
[[noreturn]] void ReportAndEndJob(const std::string& text, int exit_code);

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_JOB_WATCH_H_
