// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CPU_STRIDED_COPY_H_
#define BACKENDS_CPU_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mtf::cpu {

// Copies a box of elements between two strided places.
class StridedCopy {
 public:
  struct Loop {
    int64_t extent = 1;
    int64_t from = 0, to = 0;  // strides in elements
  };

  // Elements of 1, 2, 4 or 8 bytes. The order of the loops is free.
  StridedCopy(int element_size, std::vector<Loop> loops);

  // Copies on as many threads as pay off. The two may overlap only where they
  // are one contiguous run.
  void Run(const void* from, void* to) const;

  int64_t elements() const { return elements_; }
  // True for one run without gaps on either side.
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
