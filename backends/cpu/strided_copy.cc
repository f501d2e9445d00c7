// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/strided_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "backends/cpu/threads.h"
#include "mtf/check.h"

namespace mtf::cpu {
namespace {

// Minimum number of bytes per thread.
constexpr int64_t kGrainBytes = 64 << 10;
// A transpose works on squares with sides of one or two cache lines.
constexpr int64_t kSquare = 16;
// A transpose of at most as many columns works on as many rows.
constexpr int64_t kFewColumns = 8, kRowsInCache = 512;

// to[i][j] = from[j][i] for i < rows, j < columns, both at most kSquare. Full
// lines are read and written through a buffer: rows a power of two apart map to
// few cache sets and would evict each other.
template <int64_t kSize>
void TransposeSquare(const std::byte* from, int64_t from_stride, std::byte* to,
                     int64_t to_stride, int64_t rows, int64_t columns) {
  // A memcpy of a constant size compiles to one move.
  std::byte transposed[kSquare][kSquare * kSize];
  if (rows == kSquare && columns == kSquare) {
    for (int64_t j = 0; j < kSquare; ++j) {
      for (int64_t i = 0; i < kSquare; ++i) {
        std::memcpy(transposed[i] + j * kSize,
                    from + (j * from_stride + i) * kSize, kSize);
      }
    }
    for (int64_t i = 0; i < kSquare; ++i) {
      std::memcpy(to + i * to_stride * kSize, transposed[i],
                  sizeof(transposed[i]));
    }
    return;
  }
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(transposed[i] + j * kSize,
                  from + (j * from_stride + i) * kSize, kSize);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * to_stride * kSize, transposed[i], columns * kSize);
  }
}

}  // namespace

StridedCopy::StridedCopy(int element_size, std::vector<Loop> loops)
    : element_size_(element_size) {
  for (const Loop& loop : loops) elements_ *= loop.extent;
  std::vector<Loop> folded = FoldedLoops(std::move(loops));
  if (!folded.empty()) {
    columns_ = folded.back();
    folded.pop_back();
  } else {
    columns_ = {1, 1, 1};
  }
  if (!folded.empty()) {
    // The two innermost loops form a plane. For a transpose, the second one is
    // the loop that is contiguous in the source.
    auto rows = folded.end() - 1;
    if (columns_.from != 1) {
      const auto unit =
          std::find_if(folded.begin(), folded.end(),
                       [](const Loop& loop) { return loop.from == 1; });
      if (unit != folded.end()) rows = unit;
    }
    rows_ = *rows;
    folded.erase(rows);
  }
  outer_ = std::move(folded);
}

bool StridedCopy::contiguous() const {
  return outer_.empty() && rows_.extent == 1 && columns_.from == 1 &&
         columns_.to == 1;
}

template <int64_t kSize>
void StridedCopy::CopyPlane(const std::byte* from, std::byte* to) const {
  const Loop &r = rows_, &c = columns_;
  if (c.from == 1 && c.to == 1) {
    for (int64_t i = 0; i < r.extent; ++i) {
      std::memcpy(to + i * r.to * kSize, from + i * r.from * kSize,
                  c.extent * kSize);
    }
    return;
  }
  if (r.from == 1 && c.to == 1 && c.extent <= kFewColumns) {
    // Windows of a few elements: their rows stay in the first-level cache.
    for (int64_t first = 0; first < r.extent; first += kRowsInCache) {
      const int64_t end = std::min(first + kRowsInCache, r.extent);
      for (int64_t j = 0; j < c.extent; ++j) {
        for (int64_t i = first; i < end; ++i) {
          std::memcpy(to + (i * r.to + j) * kSize,
                      from + (i + j * c.from) * kSize, kSize);
        }
      }
    }
    return;
  }
  if (r.from == 1 && c.to == 1) {
    for (int64_t i = 0; i < r.extent; i += kSquare) {
      for (int64_t j = 0; j < c.extent; j += kSquare) {
        TransposeSquare<kSize>(from + (i + j * c.from) * kSize, c.from,
                               to + (i * r.to + j) * kSize, r.to,
                               std::min(kSquare, r.extent - i),
                               std::min(kSquare, c.extent - j));
      }
    }
    return;
  }
  for (int64_t i = 0; i < r.extent; ++i) {
    for (int64_t j = 0; j < c.extent; ++j) {
      std::memcpy(to + (i * r.to + j * c.to) * kSize,
                  from + (i * r.from + j * c.from) * kSize, kSize);
    }
  }
}

template <int64_t kSize>
void StridedCopy::RunAs(const std::byte* from, std::byte* to) const {
  if (contiguous()) {
    if (from == to) return;
    const int64_t bytes = elements_ * kSize;
    // A single memmove if the memory overlaps.
    if (to < from + bytes && from < to + bytes) {
      std::memmove(to, from, bytes);
      return;
    }
    ParallelFor(bytes, kGrainBytes, [&](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, end - begin);
    });
    return;
  }
  // Threads divide the rows of all planes.
  int64_t planes = 1;
  for (const Loop& loop : outer_) planes *= loop.extent;
  const int64_t strips =
      (rows_.extent + kSquare - 1) / kSquare;  // of one plane
  const int64_t strip_bytes = kSquare * columns_.extent * kSize;
  const int64_t grain = std::max<int64_t>(kGrainBytes / strip_bytes, 1);
  ParallelFor(planes * strips, grain, [&](int64_t begin, int64_t end) {
    StridedCopy strip = *this;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t first = unit % strips * kSquare;
      int64_t plane = unit / strips;
      int64_t read = first * rows_.from, write = first * rows_.to;
      for (auto loop = outer_.rbegin(); loop != outer_.rend(); ++loop) {
        read += plane % loop->extent * loop->from;
        write += plane % loop->extent * loop->to;
        plane /= loop->extent;
      }
      strip.rows_.extent = std::min(kSquare, rows_.extent - first);
      strip.CopyPlane<kSize>(from + read * kSize, to + write * kSize);
    }
  });
}

void StridedCopy::Run(const void* from, void* to) const {
  if (elements_ == 0) return;
  const auto* read = static_cast<const std::byte*>(from);
  auto* write = static_cast<std::byte*>(to);
  switch (element_size_) {
    case 1:
      return RunAs<1>(read, write);
    case 2:
      return RunAs<2>(read, write);
    case 4:
      return RunAs<4>(read, write);
    case 8:
      return RunAs<8>(read, write);
    default:
      break;
  }
  MTF_CHECK(false) << "elements of " << element_size_ << " bytes";
}

}  // namespace mtf::cpu
