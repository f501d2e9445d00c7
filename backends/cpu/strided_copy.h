// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_STRIDED_COPY_H_
#define BACKENDS_CPU_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/strided_loops.h"

namespace mtf::cpu {

// Copies a box of elements between two strided layouts.
class StridedCopy {
 public:
  using Loop = StridedLoop;

  // Elements of 1, 2, 4 or 8 bytes. The order of the loops is free.
  StridedCopy(int element_size, std::vector<Loop> loops);

  // Copies on as many threads as are worthwhile. The memory may overlap only if
  // contiguous().
  void Run(const void* from, void* to) const;

  int64_t elements() const { return elements_; }
  // True if source and destination are contiguous.
  bool contiguous() const;

 private:
  template <int64_t kSize>
  void RunAs(const std::byte* from, std::byte* to) const;
  template <int64_t kSize>
  void CopyPlane(const std::byte* from, std::byte* to) const;

  int element_size_;
  int64_t elements_ = 1;
  std::vector<Loop> outer_;  // outermost first
  Loop rows_, columns_;      // the two innermost
};

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_STRIDED_COPY_H_
