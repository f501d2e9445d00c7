// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_COMMUNICATORS_PIECES_H_
#define BACKENDS_COMMUNICATORS_PIECES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "backends/communicator.h"
#include "backends/communicators/copy_bytes.h"

namespace mtf {

// Visits the parts of `pieces` that make up elements [begin, begin + count) of
// their concatenation: use(piece, first element in it, elements before it in
// the range, elements).
template <class Use>
void ForEachPart(absl::Span<const Communicator::Piece> pieces, int64_t begin,
                 int64_t count, const Use& use) {
  int64_t done = 0;
  for (size_t i = 0; i < pieces.size() && done < count; ++i) {
    if (begin < pieces[i].count) {
      const int64_t n = std::min(pieces[i].count - begin, count - done);
      use(i, begin, done, n);
      done += n;
      begin = 0;
    } else {
      begin -= pieces[i].count;
    }
  }
}

// Copies a range of the concatenation of the inputs to `to`. `copy` is
// CopyBytes or StreamBytes.
inline void PackPieces(absl::Span<const Communicator::Piece> pieces,
                       int64_t begin, int64_t count, int64_t element_size,
                       std::byte* to, decltype(CopyBytes)* copy) {
  ForEachPart(
      pieces, begin, count,
      [&](size_t i, int64_t first, int64_t before, int64_t n) {
        copy(to + before * element_size,
             static_cast<const std::byte*>(pieces[i].in) + first * element_size,
             n * element_size);
      });
}

// Copies `from` to a range of the concatenation of the outputs.
inline void UnpackPieces(const std::byte* from,
                         absl::Span<const Communicator::Piece> pieces,
                         int64_t begin, int64_t count, int64_t element_size) {
  ForEachPart(
      pieces, begin, count,
      [&](size_t i, int64_t first, int64_t before, int64_t n) {
        CopyBytes(static_cast<std::byte*>(pieces[i].out) + first * element_size,
                  from + before * element_size, n * element_size);
      });
}

// Where part `place` of `total` elements begins when `parts` ranks share them:
// at multiples of 64 elements, so that no two ranks write one cache line.
inline int64_t PartBegin(int64_t total, int parts, int place) {
  const int64_t part = (total + parts - 1) / parts;
  return std::min(total, (part + 63) / 64 * 64 * place);
}

}  // namespace mtf

#endif  // BACKENDS_COMMUNICATORS_PIECES_H_
