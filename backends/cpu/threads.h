// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_THREADS_H_
#define BACKENDS_CPU_THREADS_H_

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace mtf::cpu {

// Sets how many OpenMP threads kernels use that run on the calling thread. A
// rank calls it before it prepares or runs anything: oneDNN plans its work for
// the number it finds when a kernel is prepared.
// Never more than OMP_THREAD_LIMIT: kernels share work among as many threads as
// they asked for, and what a missing thread should have done would stay undone.
inline void UseThreads(int num_threads) {
  omp_set_num_threads(std::min(num_threads, omp_get_thread_limit()));
}

// The threads a kernel may use here: one inside a parallel region.
inline int NumThreads() {
  return omp_in_parallel() ? 1 : omp_get_max_threads();
}

// Calls body(begin, end) on disjoint ranges that cover [0, count), on several
// threads where each gets at least `grain`. The ranges depend on the number of
// threads, so nothing that `body` computes may depend on where a range ends.
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
