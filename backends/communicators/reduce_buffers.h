// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_REDUCE_BUFFERS_H_
#define BACKENDS_COMMUNICATORS_REDUCE_BUFFERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "backends/communicator.h"
#include "backends/communicators/copy_bytes.h"

namespace mtf {

// Visits the spans of `buffers` that make up elements [begin, begin + count) of
// their concatenation. Calls use(buffer, first, offset, n) for each span:
//   buffer  index of the buffer
//   first   first element of the span, in the buffer
//   offset  first element of the span, in the range
//   n       number of elements
template <class Use>
void ForEachSpan(absl::Span<const Communicator::ReduceBuffer> buffers,
                 int64_t begin, int64_t count, const Use& use) {
  int64_t done = 0;
  for (size_t i = 0; i < buffers.size() && done < count; ++i) {
    if (begin < buffers[i].count) {
      const int64_t n = std::min(buffers[i].count - begin, count - done);
      use(i, begin, done, n);
      done += n;
      begin = 0;
    } else {
      begin -= buffers[i].count;
    }
  }
}

// Copies a range of the concatenation of the inputs to `to`. `copy` is
// CopyBytes or StreamBytes.
inline void PackBuffers(absl::Span<const Communicator::ReduceBuffer> buffers,
                        int64_t begin, int64_t count, int64_t element_size,
                        std::byte* to, decltype(CopyBytes)* copy) {
  ForEachSpan(buffers, begin, count,
              [&](size_t i, int64_t first, int64_t before, int64_t n) {
                copy(to + before * element_size,
                     static_cast<const std::byte*>(buffers[i].in) +
                         first * element_size,
                     n * element_size);
              });
}

// Copies `from` to a range of the concatenation of the outputs.
inline void UnpackBuffers(const std::byte* from,
                          absl::Span<const Communicator::ReduceBuffer> buffers,
                          int64_t begin, int64_t count, int64_t element_size) {
  ForEachSpan(buffers, begin, count,
              [&](size_t i, int64_t first, int64_t before, int64_t n) {
                CopyBytes(static_cast<std::byte*>(buffers[i].out) +
                              first * element_size,
                          from + before * element_size, n * element_size);
              });
}

// The first element of the share of rank `index` if `ranks` ranks divide
// `total` elements among them. Shares begin at multiples of 64 elements, so
// that no two ranks write to one cache line.
inline int64_t ShareBegin(int64_t total, int ranks, int index) {
  const int64_t share = (total + ranks - 1) / ranks;
  return std::min(total, (share + 63) / 64 * 64 * index);
}

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_REDUCE_BUFFERS_H_
