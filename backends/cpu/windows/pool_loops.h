// SPDX-License-Identifier: Apache-2.0
//
// The loops of poolings over one line of rows. Each is compiled for several
// instruction sets; the best is selected at run time.
#ifndef BACKENDS_CPU_WINDOWS_POOL_LOOPS_H_
#define BACKENDS_CPU_WINDOWS_POOL_LOOPS_H_

#include <algorithm>
#include <cstdint>

#include "lowering/program/pool_spec.h"
#include "mtf/emitter.h"

namespace mtf::cpu {

// The elements of window `i` that are rows of the line: [begin, end) of the
// window, from row `row` on.
struct WindowRows {
  int64_t begin, end, row;
  WindowRows(const PoolWindows& windows, int64_t i) {
    const int64_t first = i * windows.stride - windows.before;
    const int64_t apart = windows.dilation;
    // Divisions take longer than short rows.
    const auto steps = [&](int64_t rows) {
      return apart == 1 ? rows : rows / apart;
    };
    begin = first >= 0 ? 0 : std::min(steps(apart - 1 - first), windows.window);
    end = first >= windows.line
              ? begin
              : std::min(steps(windows.line - 1 - first) + 1, windows.window);
    end = std::max(begin, end);
    row = first + begin * apart;
  }
};

// Reduces windows [first, first + count) of `line`, [line, inner], to
// `reduced`, [count, inner]. Max and min propagate NaN. Sums are in the order
// of the window.
void ReduceWindows(const PoolWindows& windows, ReduceKind kind,
                   const float* line, int64_t first, int64_t count,
                   float* reduced);

// Some windows, and `n` elements of each of their rows. Rows of the line and of
// the reduced windows are `windows.inner` apart, those of other values `n`.
struct WindowTile {
  int64_t first = 0, count = 0, n = 0;
};

// Counts the elements of each window that equal the reduced one, those beyond
// the ends of the line too.
void CountHits(const PoolWindows& windows, const WindowTile& tile,
               const float* line, const float* reduced, float* hits);

// Rows [begin, end) of a line of results, each of which is set by the windows
// that have it. Rows before `written` contain sums, later ones anything.
struct ResultRows {
  float* line = nullptr;  // [line, inner]
  int64_t begin = 0, end = 0, written = 0;
};

// Adds the share of each window to the rows of `result` that are in the window;
// if `line` is not null, only to elements that equal the reduced one. In the
// order of the windows, and later calls are for later windows.
void AddShares(const PoolWindows& windows, const WindowTile& tile,
               const float* line, const float* reduced, const float* share,
               ResultRows& result);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_WINDOWS_POOL_LOOPS_H_
