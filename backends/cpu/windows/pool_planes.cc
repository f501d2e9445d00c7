// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/windows/pool_planes.h"

#include <algorithm>

#include "backends/cpu/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/windows/pool_planes.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "backends/cpu/vector_functions-inl.h"
#include "backends/cpu/windows/pool_loops.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mtf::cpu::HWY_NAMESPACE {
namespace {

template <int kRows, class Combine>
HWY_INLINE void ReduceRowsOfPlane(const PoolPlane& plane, const float* x,
                                  float divisor, float* over_rows,
                                  float* reduced, const Combine& combine) {
  const FloatTag d;
  // Multiplications by a power of two are exact and faster.
  const bool multiplies = HasExactReciprocal(divisor);
  const Vector factor = hn::Set(d, multiplies ? 1.0f / divisor : divisor);
  const int64_t row = plane.row_elements(), inner = plane.inner;
  const auto reduce_rows = [&](int64_t at) HWY_ATTR {
    Floats value(hn::LoadU(d, x + at));
    for (int r = 1; r < kRows; ++r) {
      value = combine(value, Floats(hn::LoadU(d, x + r * row + at)));
    }
    if (over_rows != nullptr) hn::StoreU(value.v, d, over_rows + at);
    return value;
  };
  for (int64_t window = 0; window < plane.windows; ++window) {
    const int64_t first = window * plane.columns * inner;
    EachVectorOf(inner, [&](int64_t i) HWY_ATTR {
      Floats total = reduce_rows(first + i);
      for (int64_t w = 1; w < plane.columns; ++w) {
        total = combine(total, reduce_rows(first + w * inner + i));
      }
      hn::StoreU(
          multiplies ? hn::Mul(total.v, factor) : hn::Div(total.v, factor), d,
          reduced + window * inner + i);
    });
  }
  if (over_rows == nullptr) return;
  // The columns that no window has.
  const int64_t covered = plane.windows * plane.columns * inner;
  if (covered == row) return;
  EachVectorOf(row - covered,
               [&](int64_t i) HWY_ATTR { reduce_rows(covered + i); });
}

template <int kRows>
void ReducePlaneOf(const PoolPlane& plane, ReduceKind kind, const float* x,
                   float divisor, float* over_rows, float* reduced) {
  switch (kind) {
    case ReduceKind::kSum:
      return ReduceRowsOfPlane<kRows>(plane, x, divisor, over_rows, reduced,
                                      [](Floats a, Floats b)
                                          HWY_ATTR { return a + b; });
    case ReduceKind::kMax:
      return ReduceRowsOfPlane<kRows>(plane, x, divisor, over_rows, reduced,
                                      [](Floats a, Floats b)
                                          HWY_ATTR { return Maximum(a, b); });
    case ReduceKind::kMin:
      return ReduceRowsOfPlane<kRows>(plane, x, divisor, over_rows, reduced,
                                      [](Floats a, Floats b)
                                          HWY_ATTR { return Minimum(a, b); });
  }
}

void ReducePlaneImpl(const PoolPlane& plane, ReduceKind kind, const float* x,
                     float divisor, float* over_rows, float* reduced) {
  switch (plane.rows) {
    case 2:
      return ReducePlaneOf<2>(plane, kind, x, divisor, over_rows, reduced);
    case 3:
      return ReducePlaneOf<3>(plane, kind, x, divisor, over_rows, reduced);
    default:
      return ReducePlaneOf<4>(plane, kind, x, divisor, over_rows, reduced);
  }
}

// One window of `columns` columns, `row` elements between its rows: elements
// [i, i + kVectors vectors) of each column.
template <int kRows, int kVectors, class Combine>
HWY_INLINE void ReduceWindowOfPlane(const float* x, int64_t row,
                                    int64_t columns, int64_t inner,
                                    const Combine& combine,
                                    Vector (&total)[kVectors]) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < columns; ++c, x += inner) {
    for (int v = 0; v < kVectors; ++v) {
      Floats value(hn::LoadU(d, x + v * lanes));
      for (int r = 1; r < kRows; ++r) {
        value = combine(value, Floats(hn::LoadU(d, x + r * row + v * lanes)));
      }
      total[v] = c == 0 ? value.v : combine(Floats(total[v]), value).v;
    }
  }
}

// Windows of columns of the `kRows` rows at `x`.
template <int kRows, class Combine>
HWY_INLINE void ReduceWindowsOfPlane(const PoolWindows& windows, const float* x,
                                     float divisor, float* reduced,
                                     const Combine& combine) {
  const FloatTag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool multiplies = HasExactReciprocal(divisor);
  const Vector factor = hn::Set(d, multiplies ? 1.0f / divisor : divisor);
  const int64_t inner = windows.inner, row = windows.line * inner;
  const auto store = [&](Vector total, float* to) HWY_ATTR {
    hn::StoreU(multiplies ? hn::Mul(total, factor) : hn::Div(total, factor), d,
               to);
  };
  for (int64_t window = 0; window < windows.windows; ++window) {
    const WindowRows columns(windows, window);
    const int64_t count = columns.end - columns.begin;
    const float* const from = x + columns.row * inner;
    float* const to = reduced + window * inner;
    int64_t i = 0;
    for (; i + 4 * lanes <= inner; i += 4 * lanes) {
      Vector total[4];
      ReduceWindowOfPlane<kRows>(from + i, row, count, inner, combine, total);
      for (int v = 0; v < 4; ++v) store(total[v], to + i + v * lanes);
    }
    // The last vector may contain elements that the one before it wrote.
    for (; i < inner; i += lanes) {
      const int64_t at = std::min(i, inner - lanes);
      Vector total[1];
      ReduceWindowOfPlane<kRows>(from + at, row, count, inner, combine, total);
      store(total[0], to + at);
    }
  }
}

template <class Combine>
void ReduceOverlappingWith(const PoolWindows& rows, const PoolWindows& columns,
                           const float* line, int64_t first, int64_t count,
                           float divisor, float* reduced,
                           const Combine& combine) {
  for (int64_t i = 0; i < count; ++i) {
    const WindowRows window(rows, first + i);
    const float* const x = line + window.row * rows.inner;
    float* const to = reduced + i * columns.windows * columns.inner;
    switch (window.end - window.begin) {
      case 1:
        ReduceWindowsOfPlane<1>(columns, x, divisor, to, combine);
        break;
      case 2:
        ReduceWindowsOfPlane<2>(columns, x, divisor, to, combine);
        break;
      default:
        ReduceWindowsOfPlane<3>(columns, x, divisor, to, combine);
        break;
    }
  }
}

void ReduceOverlappingPlanesImpl(const PoolWindows& rows,
                                 const PoolWindows& columns, ReduceKind kind,
                                 const float* line, int64_t first,
                                 int64_t count, float divisor, float* reduced) {
  switch (kind) {
    case ReduceKind::kSum:
      return ReduceOverlappingWith(
          rows, columns, line, first, count, divisor, reduced,
          [](Floats a, Floats b) HWY_ATTR { return a + b; });
    case ReduceKind::kMax:
      return ReduceOverlappingWith(
          rows, columns, line, first, count, divisor, reduced,
          [](Floats a, Floats b) HWY_ATTR { return Maximum(a, b); });
    case ReduceKind::kMin:
      return ReduceOverlappingWith(
          rows, columns, line, first, count, divisor, reduced,
          [](Floats a, Floats b) HWY_ATTR { return Minimum(a, b); });
  }
}

// The share of each of the rows that are hit. Their number is 1 or 2 for two
// rows, whose quotients are exact products.
template <int kRows, class Hit>
HWY_INLINE Vector DivideByHits(Vector share, const Hit (&hits)[kRows]) {
  const FloatTag d;
  if constexpr (kRows == 2) {
    return hn::IfThenElse(hn::And(hits[0], hits[1]),
                          hn::Mul(share, hn::Set(d, 0.5f)), share);
  } else {
    const Vector one = hn::Set(d, 1.0f);
    Vector count = hn::IfThenElseZero(hits[0], one);
    for (int r = 1; r < kRows; ++r) {
      count = hn::Add(count, hn::IfThenElseZero(hits[r], one));
    }
    return hn::Div(share, count);
  }
}

// The share of each of the columns of a window that equal the reduced one.
HWY_INLINE Vector DivideByColumns(const PoolPlane& plane, Vector share,
                                  const float* columns, Vector wanted) {
  const FloatTag d;
  const Vector one = hn::Set(d, 1.0f);
  const auto is_hit = [&](int64_t w) HWY_ATTR {
    return hn::Eq(hn::LoadU(d, columns + w * plane.inner), wanted);
  };
  if (plane.columns == 2) return DivideByHits(share, {is_hit(0), is_hit(1)});
  Vector count = hn::Zero(d);
  for (int64_t w = 0; w < plane.columns; ++w) {
    count = hn::Add(count, hn::IfThenElseZero(is_hit(w), one));
  }
  return hn::Div(share, count);
}

template <int kRows>
void SpreadExtrema(const PoolPlane& plane, const PlaneExtrema& extrema,
                   const float* share, int64_t begin, int64_t end,
                   float* result) {
  const FloatTag d;
  const int64_t row = plane.row_elements(), inner = plane.inner;
  for (int64_t window = 0; window < plane.windows; ++window) {
    EachVectorOf(inner, [&](int64_t i) HWY_ATTR {
      const Vector wanted = hn::LoadU(d, extrema.reduced + window * inner + i);
      Vector given = hn::LoadU(d, share + window * inner + i);
      if (extrema.divides_by_columns) {
        given = DivideByColumns(
            plane, given,
            extrema.over_rows + window * plane.columns * inner + i, wanted);
      }
      for (int64_t w = 0; w < plane.columns; ++w) {
        const int64_t at = (window * plane.columns + w) * inner + i;
        const Vector column = hn::LoadU(d, extrema.over_rows + at);
        const Vector part = hn::IfThenElseZero(hn::Eq(column, wanted), given);
        hn::Mask<FloatTag> hits[kRows];
        for (int r = 0; r < kRows; ++r) {
          hits[r] = hn::Eq(hn::LoadU(d, extrema.x + r * row + at), column);
        }
        const Vector each = DivideByHits(part, hits);
        for (int r = 0; r < kRows; ++r) {
          if (r < begin || r >= end) continue;
          hn::StoreU(hn::IfThenElseZero(hits[r], each), d,
                     result + r * row + at);
        }
      }
    });
  }
}

void SpreadSums(const PoolPlane& plane, const float* share, int64_t begin,
                int64_t end, float* result) {
  const FloatTag d;
  const int64_t inner = plane.inner;
  for (int64_t r = begin; r < end; ++r) {
    float* to = result + r * plane.row_elements();
    for (int64_t window = 0; window < plane.windows; ++window) {
      const float* const from = share + window * inner;
      for (int64_t w = 0; w < plane.columns; ++w, to += inner) {
        EachVectorOf(inner, [&](int64_t i) HWY_ATTR {
          hn::StoreU(hn::LoadU(d, from + i), d, to + i);
        });
      }
    }
  }
}

void SpreadPlaneImpl(const PoolPlane& plane, const PlaneExtrema& extrema,
                     const float* share, int64_t begin, int64_t end,
                     float* result) {
  if (extrema.x == nullptr) {
    SpreadSums(plane, share, begin, end, result);
  } else if (plane.rows == 2) {
    SpreadExtrema<2>(plane, extrema, share, begin, end, result);
  } else if (plane.rows == 3) {
    SpreadExtrema<3>(plane, extrema, share, begin, end, result);
  } else {
    SpreadExtrema<4>(plane, extrema, share, begin, end, result);
  }
  const int64_t covered = plane.windows * plane.columns * plane.inner;
  for (int64_t r = begin; r < end; ++r) {
    float* const to = result + r * plane.row_elements();
    std::fill(to + covered, to + plane.row_elements(), 0.0f);
  }
}

}  // namespace
}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtf::cpu {

HWY_EXPORT(ReducePlaneImpl);
HWY_EXPORT(ReduceOverlappingPlanesImpl);
HWY_EXPORT(SpreadPlaneImpl);

std::optional<PoolPlane> PoolPlane::Of(const PoolWindows& rows,
                                       const PoolWindows& columns) {
  const auto are_side_by_side = [](const PoolWindows& windows) {
    return windows.before == 0 && windows.dilation == 1 &&
           windows.stride == windows.window &&
           windows.windows * windows.window <= windows.line;
  };
  if (!are_side_by_side(rows) || !are_side_by_side(columns) ||
      rows.window < 2 || rows.window > 4 || columns.inner < kLanes ||
      rows.inner != columns.line * columns.inner) {
    return std::nullopt;
  }
  return PoolPlane{rows.window, columns.window, columns.windows, columns.line,
                   columns.inner};
}

void ReducePlane(const PoolPlane& plane, ReduceKind kind, const float* x,
                 float divisor, float* over_rows, float* reduced) {
  HWY_DYNAMIC_DISPATCH(ReducePlaneImpl)
  (plane, kind, x, divisor, over_rows, reduced);
}

bool CanReduceOverlappingPlanes(const PoolWindows& rows,
                                const PoolWindows& columns) {
  const auto have_elements = [](const PoolWindows& windows) {
    if (windows.windows == 0 || windows.dilation != 1) return false;
    const WindowRows first(windows, 0), last(windows, windows.windows - 1);
    return first.begin < first.end && last.begin < last.end;
  };
  return have_elements(rows) && have_elements(columns) && rows.window <= 3 &&
         columns.inner >= kLanes && rows.inner == columns.line * columns.inner;
}

void ReduceOverlappingPlanes(const PoolWindows& rows,
                             const PoolWindows& columns, ReduceKind kind,
                             const float* line, int64_t first, int64_t count,
                             float divisor, float* reduced) {
  HWY_DYNAMIC_DISPATCH(ReduceOverlappingPlanesImpl)
  (rows, columns, kind, line, first, count, divisor, reduced);
}

void SpreadPlane(const PoolPlane& plane, const PlaneExtrema& extrema,
                 const float* share, int64_t begin, int64_t end,
                 float* result) {
  HWY_DYNAMIC_DISPATCH(SpreadPlaneImpl)
  (plane, extrema, share, begin, end, result);
}

}  // namespace mtf::cpu
#endif  // HWY_ONCE
