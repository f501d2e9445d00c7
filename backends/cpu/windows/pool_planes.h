// SPDX-License-Identifier: Apache-2.0
//
// Poolings along two neighbouring dimensions, rows and columns. One loop takes
// both, so that what the windows of rows give need not be in memory, and where
// windows lie side by side every element is read once. The bits are those of
// one dimension after the other (pool_loops.h).
#ifndef BACKENDS_CPU_WINDOWS_POOL_PLANES_H_
#define BACKENDS_CPU_WINDOWS_POOL_PLANES_H_

#include <cstdint>
#include <optional>

#include "lowering/program/pool_spec.h"
#include "mtf/emitter.h"

namespace mtf::cpu {

// The windows that have the same rows: [rows, width, inner] in memory, of which
// a window has all rows and `columns` columns.
struct PoolPlane {
  int64_t rows = 0, columns = 0;
  int64_t windows = 0;
  int64_t width = 0, inner = 0;

  // Returns nothing if windows overlap, have gaps or padding, or have other
  // sizes than the loops below are for.
  static std::optional<PoolPlane> Of(const PoolWindows& rows,
                                     const PoolWindows& columns);
  int64_t row_elements() const { return width * inner; }
  int64_t window_elements() const { return windows * inner; }
};

// Reduces the windows of `x`, first along rows, then along columns, and divides
// by `divisor`, to `reduced`, [windows, inner]. Writes the reductions along
// rows, [width, inner], to `over_rows` if that is not null.
void ReducePlane(const PoolPlane& plane, ReduceKind kind, const float* x,
                 float divisor, float* over_rows, float* reduced);

// Whether ReduceOverlappingPlanes can reduce such windows: few rows without
// gaps, each window with a row and a column that are not padding.
bool CanReduceOverlappingPlanes(const PoolWindows& rows,
                                const PoolWindows& columns);

// Reduces windows [first, first + count) of rows, which may overlap, of `line`,
// [rows.line, columns.line, columns.inner], then all windows of columns, and
// divides by `divisor`, to `reduced`, [count, columns.windows, columns.inner].
void ReduceOverlappingPlanes(const PoolWindows& rows,
                             const PoolWindows& columns, ReduceKind kind,
                             const float* line, int64_t first, int64_t count,
                             float divisor, float* reduced);

// The values of a maximum or minimum, with the shapes that ReducePlane gives
// them; `x` is null for a sum. Shares are divided by the number of columns that
// equal `reduced` if `divides_by_columns`.
struct PlaneExtrema {
  const float *x = nullptr, *over_rows = nullptr, *reduced = nullptr;
  bool divides_by_columns = false;
};

// Writes rows [begin, end) of the gradient of a plane to `result`, [rows,
// width, inner]. A window has `share`, [windows, inner], for each column: for a
// maximum, only for columns that equal `reduced`, divided by the number of rows
// that equal the column's `over_rows`, and given to those.
void SpreadPlane(const PoolPlane& plane, const PlaneExtrema& extrema,
                 const float* share, int64_t begin, int64_t end, float* result);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_WINDOWS_POOL_PLANES_H_
