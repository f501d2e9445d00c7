// SPDX-License-Identifier: Apache-2.0
//
// The threads of a rank. Each rank has a pool of its own.
//
// Work is divided into more pieces than threads, and a thread takes a piece
// when it is free. So a thread that the system has given to another process
// delays its rank by a piece at most, where a team of OpenMP would wait for its
// whole share, in every kernel.
#ifndef BACKENDS_CPU_THREADS_H_
#define BACKENDS_CPU_THREADS_H_

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace mtf::cpu {

// Sets the number of threads for kernels on the calling thread, at most
// OMP_THREAD_LIMIT. A rank calls this before it prepares or runs anything.
// Calls of oneDNN then run on the thread that makes them.
void UseThreads(int num_threads);

// The number of threads that a kernel may use: one inside of ParallelFor.
int NumThreads();

// The number of this thread in the innermost ParallelFor, below NumThreads() of
// its caller; 0 outside.
int ThreadIndex();

namespace internal {
// Calls run(piece) for each piece in [0, pieces) on up to NumThreads() threads.
void RunPieces(int pieces, absl::FunctionRef<void(int piece)> run);
}  // namespace internal

// Calls body(begin, end) on disjoint ranges that cover [0, count) with at least
// `grain` each. The ranges depend on the number of threads, so the results of
// `body` must not depend on them.
template <class Body>
void ParallelFor(int64_t count, int64_t grain, const Body& body) {
  const int64_t most = count / std::max<int64_t>(grain, 1);
  const int64_t threads = NumThreads();
  if (threads <= 1 || most <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  // As many for each thread, so that none waits if all of them run.
  const int64_t pieces =
      std::min(most, threads * std::clamp<int64_t>(most / threads, 1, 4));
  internal::RunPieces(static_cast<int>(pieces), [&](int piece) {
    body(count * piece / pieces, count * (piece + 1) / pieces);
  });
}

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_THREADS_H_
