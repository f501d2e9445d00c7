// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/windows/pool_loops.h"

#include <limits>

#include "backends/cpu/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/windows/pool_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "backends/cpu/vector_functions-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mtf::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE int64_t VectorLanes() {
  return static_cast<int64_t>(hn::Lanes(FloatTag()));
}

// Combines `rows` rows, `apart` elements from each other, of `n` elements.
template <class Combine, class CombineScalars>
HWY_INLINE void CombineRows(const float* from, int64_t rows, int64_t apart,
                            int64_t n, float* to, const Combine& combine,
                            const CombineScalars& combine_scalars) {
  const FloatTag d;
  const int64_t lanes = VectorLanes();
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const float* row = from + i;
    Vector a = hn::LoadU(d, row), b = hn::LoadU(d, row + lanes);
    for (int64_t r = 1; r < rows; ++r) {
      row += apart;
      a = combine(Floats(a), Floats(hn::LoadU(d, row))).v;
      b = combine(Floats(b), Floats(hn::LoadU(d, row + lanes))).v;
    }
    hn::StoreU(a, d, to + i);
    hn::StoreU(b, d, to + i + lanes);
  }
  // The last vector may contain elements that the one before it wrote.
  while (i < n && n >= lanes) {
    const int64_t at = std::min(i, n - lanes);
    const float* row = from + at;
    Vector a = hn::LoadU(d, row);
    for (int64_t r = 1; r < rows; ++r) {
      row += apart;
      a = combine(Floats(a), Floats(hn::LoadU(d, row))).v;
    }
    hn::StoreU(a, d, to + at);
    i = at + lanes;
  }
  for (; i < n; ++i) {
    float a = from[i];
    for (int64_t r = 1; r < rows; ++r) {
      a = combine_scalars(a, from[i + r * apart]);
    }
    to[i] = a;
  }
}

template <class Combine, class CombineScalars>
HWY_INLINE void ReduceEach(const PoolWindows& windows, float identity,
                           const float* line, int64_t first, int64_t count,
                           float* reduced, const Combine& combine,
                           const CombineScalars& combine_scalars) {
  const int64_t inner = windows.inner;
  for (int64_t i = 0; i < count; ++i) {
    const WindowRows rows(windows, first + i);
    float* const to = reduced + i * inner;
    if (rows.begin == rows.end) {
      std::fill(to, to + inner, identity);
      continue;
    }
    CombineRows(line + rows.row * inner, rows.end - rows.begin,
                windows.dilation * inner, inner, to, combine, combine_scalars);
  }
}

void ReduceWindowsImpl(const PoolWindows& windows, ReduceKind kind,
                       const float* line, int64_t first, int64_t count,
                       float* reduced) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  switch (kind) {
    case ReduceKind::kSum:
      return ReduceEach(
          windows, 0, line, first, count, reduced,
          [](Floats a, Floats b) HWY_ATTR { return a + b; },
          [](float a, float b) { return a + b; });
    case ReduceKind::kMax:
      return ReduceEach(
          windows, -kInf, line, first, count, reduced,
          [](Floats a, Floats b) HWY_ATTR { return Maximum(a, b); },
          [](float a, float b) { return a != a || a > b ? a : b; });
    case ReduceKind::kMin:
      return ReduceEach(
          windows, kInf, line, first, count, reduced,
          [](Floats a, Floats b) HWY_ATTR { return Minimum(a, b); },
          [](float a, float b) { return a != a || a < b ? a : b; });
  }
}

void CountHitsImpl(const PoolWindows& windows, const WindowTile& tile,
                   const float* line, const float* reduced, float* hits) {
  const FloatTag d;
  const int64_t lanes = VectorLanes(), inner = windows.inner, n = tile.n;
  const auto fill = static_cast<float>(windows.fill);
  const Vector one = hn::Set(d, 1.0f), vector_fill = hn::Set(d, fill);
  for (int64_t i = 0; i < tile.count; ++i) {
    const WindowRows rows(windows, tile.first + i);
    const int64_t inside = rows.end - rows.begin;
    const auto outside = static_cast<float>(windows.window - inside);
    const float* const first = line + rows.row * inner;
    const float* const y = reduced + i * inner;
    float* const to = hits + i * n;
    const int64_t apart = windows.dilation * inner;
    int64_t j = 0;
    while (j < n && n >= lanes) {
      const int64_t at = std::min(j, n - lanes);
      const Vector wanted = hn::LoadU(d, y + at);
      Vector sum =
          hn::IfThenElseZero(hn::Eq(wanted, vector_fill), hn::Set(d, outside));
      for (int64_t w = 0; w < inside; ++w) {
        const auto hit = hn::Eq(hn::LoadU(d, first + w * apart + at), wanted);
        sum = hn::Add(sum, hn::IfThenElseZero(hit, one));
      }
      hn::StoreU(sum, d, to + at);
      j = at + lanes;
    }
    for (; j < n; ++j) {
      float sum = y[j] == fill ? outside : 0;
      for (int64_t w = 0; w < inside; ++w) {
        sum += first[w * apart + j] == y[j] ? 1.0f : 0.0f;
      }
      to[j] = sum;
    }
  }
}

// Adds `n` shares to a row, or sets the row to them.
template <bool kMasked, bool kAdds>
HWY_INLINE void AddShare(const float* row, const float* y, const float* share,
                         int64_t n, float* to) {
  const FloatTag d;
  const int64_t lanes = VectorLanes();
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    Vector value = hn::LoadU(d, share + j);
    if constexpr (kMasked) {
      const auto hit = hn::Eq(hn::LoadU(d, row + j), hn::LoadU(d, y + j));
      value = hn::IfThenElseZero(hit, value);
    }
    if constexpr (kAdds) value = hn::Add(hn::LoadU(d, to + j), value);
    hn::StoreU(value, d, to + j);
  }
  for (; j < n; ++j) {
    const float value = !kMasked || row[j] == y[j] ? share[j] : 0.0f;
    to[j] = kAdds ? to[j] + value : value;
  }
}

template <bool kMasked>
void AddToRows(const PoolWindows& windows, const WindowTile& tile,
               const float* line, const float* reduced, const float* share,
               ResultRows& result) {
  const int64_t inner = windows.inner, n = tile.n;
  for (int64_t i = 0; i < tile.count; ++i) {
    const WindowRows rows(windows, tile.first + i);
    for (int64_t w = rows.begin; w < rows.end; ++w) {
      const int64_t row = rows.row + (w - rows.begin) * windows.dilation;
      if (row < result.begin || row >= result.end) continue;
      float* const to = result.line + row * inner;
      const float* const from = kMasked ? line + row * inner : nullptr;
      const float* const y = kMasked ? reduced + i * inner : nullptr;
      if (row < result.written) {
        AddShare<kMasked, true>(from, y, share + i * n, n, to);
        continue;
      }
      // Rows that no window has, or only later ones.
      for (; result.written < row; ++result.written) {
        float* const skipped = result.line + result.written * inner;
        std::fill(skipped, skipped + n, 0.0f);
      }
      AddShare<kMasked, false>(from, y, share + i * n, n, to);
      ++result.written;
    }
  }
}

void AddSharesImpl(const PoolWindows& windows, const WindowTile& tile,
                   const float* line, const float* reduced, const float* share,
                   ResultRows& result) {
  if (line == nullptr) {
    return AddToRows<false>(windows, tile, line, reduced, share, result);
  }
  AddToRows<true>(windows, tile, line, reduced, share, result);
}

}  // namespace
}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtf::cpu {

HWY_EXPORT(ReduceWindowsImpl);
HWY_EXPORT(CountHitsImpl);
HWY_EXPORT(AddSharesImpl);

void ReduceWindows(const PoolWindows& windows, ReduceKind kind,
                   const float* line, int64_t first, int64_t count,
                   float* reduced) {
  HWY_DYNAMIC_DISPATCH(ReduceWindowsImpl)
  (windows, kind, line, first, count, reduced);
}

void CountHits(const PoolWindows& windows, const WindowTile& tile,
               const float* line, const float* reduced, float* hits) {
  HWY_DYNAMIC_DISPATCH(CountHitsImpl)(windows, tile, line, reduced, hits);
}

void AddShares(const PoolWindows& windows, const WindowTile& tile,
               const float* line, const float* reduced, const float* share,
               ResultRows& result) {
  HWY_DYNAMIC_DISPATCH(AddSharesImpl)
  (windows, tile, line, reduced, share, result);
}

}  // namespace mtf::cpu
#endif  // HWY_ONCE
