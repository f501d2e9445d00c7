// SPDX-License-Identifier: Apache-2.0
//
// The loops of depthwise convolutions over one row of an image. Each is
// compiled for several instruction sets; the best is selected at run time.
#ifndef BACKENDS_CPU_WINDOWS_DEPTHWISE_LOOPS_H_
#define BACKENDS_CPU_WINDOWS_DEPTHWISE_LOOPS_H_

#include <cstdint>

#include "lowering/program/pool_spec.h"

namespace mtf::cpu {

// A convolution of images [rows.line, columns.line, channels] to
// [rows.windows, columns.windows, channels] in which every channel has a filter
// of its own. Of `rows` and `columns`, the extents other than outer and inner
// matter.
struct DepthwiseShape {
  PoolWindows rows, columns;
  int64_t channels = 0;  // at least kLanes
  // The distances in memory between the elements of a filter, whose channels
  // are neighbours.
  int64_t row_stride = 0, column_stride = 0;

  int64_t taps() const { return rows.window * columns.window; }
};

// Computes row `row` of the result for one image. Adds the products of an
// element in the order of the filter in memory.
void ConvolveRow(const DepthwiseShape& shape, const float* image,
                 const float* filter, int64_t row, float* result);

// Adds what row `row` of `gradient`, the gradient of the result for one image,
// gives the filter to `sums`, [rows.window, columns.window, channels].
void AddFilterGradientOfRow(const DepthwiseShape& shape, const float* image,
                            const float* gradient, int64_t row, float* sums);

}  // namespace mtf::cpu

#endif  // BACKENDS_CPU_WINDOWS_DEPTHWISE_LOOPS_H_
