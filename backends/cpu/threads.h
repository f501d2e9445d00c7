// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_THREADS_H_
#define BACKENDS_CPU_THREADS_H_

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace mtf::cpu {

// Sets the number of OpenMP threads for kernels on the calling thread. A rank
// calls this before it prepares or runs anything, because oneDNN plans its work
// for the number of threads at preparation. At most OMP_THREAD_LIMIT: kernels
// divide their work among the threads they request, and the share of a missing
// thread would not be done.
inline void UseThreads(int num_threads) {
  omp_set_num_threads(std::min(num_threads, omp_get_thread_limit()));
}

// The number of threads that a kernel may use: one inside a parallel region.
inline int NumThreads() {
  return omp_in_parallel() ? 1 : omp_get_max_threads();
}

// Calls body(begin, end) on disjoint ranges that cover [0, count), on as many
// threads as get at least `grain` each. The ranges depend on the number of
// threads, so the results of `body` must not depend on them.
template <class Body>
void ParallelFor(int64_t count, int64_t grain, const Body& body) {
  const int64_t most = count / std::max<int64_t>(grain, 1);
  const int threads = static_cast<int>(std::min<int64_t>(NumThreads(), most));
  if (threads <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const int64_t team = omp_get_num_threads(), self = omp_get_thread_num();
    const int64_t begin = count * self / team;
    const int64_t end = count * (self + 1) / team;
    if (begin < end) body(begin, end);
  }
}

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_THREADS_H_
