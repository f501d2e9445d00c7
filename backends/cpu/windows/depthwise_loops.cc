// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/windows/depthwise_loops.h"

#include <algorithm>

#include "backends/cpu/highway_targets.h"
#include "backends/cpu/rounding.h"
#include "backends/cpu/windows/pool_loops.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/windows/depthwise_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "backends/cpu/vector_functions-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mtf::cpu::HWY_NAMESPACE {
namespace {

// Results that share each load of the filter, in registers.
constexpr int kMostPositions = 8;
// Elements of a row of the filter whose gradients are in registers.
constexpr int kMostTaps = 4;

// Indices [begin, end).
struct Range {
  int64_t begin, end;
};

// The windows that have element `element` of theirs in the line.
HWY_INLINE Range WindowsWith(const PoolWindows& windows, int64_t element) {
  const int64_t shift = element * windows.dilation - windows.before;
  // shift + i * stride is in [0, line).
  const int64_t begin = shift >= 0 ? 0 : CeilDivide(-shift, windows.stride);
  const int64_t end = shift >= windows.line
                          ? 0
                          : (windows.line - 1 - shift) / windows.stride + 1;
  return {std::min(begin, windows.windows),
          std::max(std::min(begin, windows.windows),
                   std::min(end, windows.windows))};
}

// The windows that have all of their elements in the line.
HWY_INLINE Range WholeWindows(const PoolWindows& windows) {
  const Range first = WindowsWith(windows, 0);
  const Range last = WindowsWith(windows, windows.window - 1);
  const int64_t begin = std::max(first.begin, last.begin);
  return {begin, std::max(begin, std::min(first.end, last.end))};
}

// The rows of one image and of the filter that give a row of results.
struct ImageRows {
  const DepthwiseShape& shape;
  const WindowRows window;
  const float *image, *filter;

  ImageRows(const DepthwiseShape& of, const float* from, const float* by,
            int64_t row)
      : shape(of), window(of.rows, row), image(from), filter(by) {}
  // Column 0 of the row that element `element` of the window reads.
  const float* Row(int64_t element) const {
    const int64_t row =
        window.row + (element - window.begin) * shape.rows.dilation;
    return image + row * shape.columns.line * shape.channels;
  }
};

// Results [position, position + kPositions), which read elements `taps` of the
// rows of the filter.
template <int kPositions>
HWY_INLINE void ConvolvePositions(const ImageRows& rows, int64_t position,
                                  const Range& taps, float* result) {
  const FloatTag d;
  const DepthwiseShape& shape = rows.shape;
  const int64_t channels = shape.channels;
  const int64_t apart = shape.columns.stride * channels;
  const int64_t column = position * shape.columns.stride - shape.columns.before;
  EachVectorOf(channels, [&](int64_t c) HWY_ATTR {
    Vector sums[kPositions];
    for (int p = 0; p < kPositions; ++p) sums[p] = hn::Zero(d);
    for (int64_t i = rows.window.begin; i < rows.window.end; ++i) {
      const float* const row = rows.Row(i) + c;
      const float* const filter = rows.filter + i * shape.row_stride + c;
      for (int64_t j = taps.begin; j < taps.end; ++j) {
        const Vector tap = hn::LoadU(d, filter + j * shape.column_stride);
        const float* const from =
            row + (column + j * shape.columns.dilation) * channels;
        for (int p = 0; p < kPositions; ++p) {
          sums[p] = hn::MulAdd(hn::LoadU(d, from + p * apart), tap, sums[p]);
        }
      }
    }
    for (int p = 0; p < kPositions; ++p) {
      hn::StoreU(sums[p], d, result + (position + p) * channels + c);
    }
  });
}

void ConvolveRowImpl(const DepthwiseShape& shape, const float* image,
                     const float* filter, int64_t row, float* result) {
  const ImageRows rows(shape, image, filter, row);
  const Range whole = WholeWindows(shape.columns);
  const auto convolve_partial = [&](int64_t position) HWY_ATTR {
    const WindowRows taps(shape.columns, position);
    ConvolvePositions<1>(rows, position, {taps.begin, taps.end}, result);
  };
  const Range all = {0, shape.columns.window};
  int64_t i = 0;
  for (; i < whole.begin; ++i) convolve_partial(i);
  for (; i + kMostPositions <= whole.end; i += kMostPositions) {
    ConvolvePositions<kMostPositions>(rows, i, all, result);
  }
  for (; i + 2 <= whole.end; i += 2) {
    ConvolvePositions<2>(rows, i, all, result);
  }
  for (; i < shape.columns.windows; ++i) convolve_partial(i);
}

// Adds the gradient of elements [first, first + kTaps) of a row of the filter.
template <int kTaps>
HWY_INLINE void AddGradientOfTaps(const DepthwiseShape& shape, const float* row,
                                  const float* gradient, int64_t first,
                                  float* sums) {
  const FloatTag d;
  const PoolWindows& columns = shape.columns;
  const int64_t channels = shape.channels;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Range ranges[kTaps];
  Range whole = {0, columns.windows};
  for (int t = 0; t < kTaps; ++t) {
    ranges[t] = WindowsWith(columns, first + t);
    whole.begin = std::max(whole.begin, ranges[t].begin);
    whole.end = std::min(whole.end, ranges[t].end);
  }
  whole.end = std::max(whole.begin, whole.end);
  const int64_t apart = columns.dilation * channels;
  int64_t next = 0;  // the first channel whose sum is not added yet
  EachVectorOf(channels, [&](int64_t c) HWY_ATTR {
    const float* const x =
        row + (first * columns.dilation - columns.before) * channels + c;
    const float* const dy = gradient + c;
    const auto product = [&](int64_t i, int t, Vector sum) HWY_ATTR {
      return hn::MulAdd(
          hn::LoadU(d, x + i * columns.stride * channels + t * apart),
          hn::LoadU(d, dy + i * channels), sum);
    };
    Vector total[kTaps];
    for (int t = 0; t < kTaps; ++t) {
      total[t] = hn::Zero(d);
      const int64_t end = std::min(whole.begin, ranges[t].end);
      for (int64_t i = ranges[t].begin; i < end; ++i) {
        total[t] = product(i, t, total[t]);
      }
    }
    for (int64_t i = whole.begin; i < whole.end; ++i) {
      for (int t = 0; t < kTaps; ++t) total[t] = product(i, t, total[t]);
    }
    for (int t = 0; t < kTaps; ++t) {
      const int64_t begin = std::max(whole.end, ranges[t].begin);
      for (int64_t i = begin; i < ranges[t].end; ++i) {
        total[t] = product(i, t, total[t]);
      }
      float* const to = sums + (first + t) * channels + c;
      if (c == next) {
        hn::StoreU(hn::Add(hn::LoadU(d, to), total[t]), d, to);
        continue;
      }
      HWY_ALIGN float last[hn::MaxLanes(FloatTag())];
      hn::Store(total[t], d, last);
      for (int64_t i = next - c; i < lanes; ++i) to[i] += last[i];
    }
    next = c + lanes;
  });
}

void AddFilterGradientOfRowImpl(const DepthwiseShape& shape, const float* image,
                                const float* gradient, int64_t row,
                                float* sums) {
  const ImageRows rows(shape, image, nullptr, row);
  const int64_t taps = shape.columns.window;
  for (int64_t i = rows.window.begin; i < rows.window.end; ++i) {
    const float* const from = rows.Row(i);
    float* const to = sums + i * taps * shape.channels;
    int64_t j = 0;
    for (; j + kMostTaps <= taps; j += kMostTaps) {
      AddGradientOfTaps<kMostTaps>(shape, from, gradient, j, to);
    }
    if (taps - j == 3) AddGradientOfTaps<3>(shape, from, gradient, j, to);
    if (taps - j == 2) AddGradientOfTaps<2>(shape, from, gradient, j, to);
    if (taps - j == 1) AddGradientOfTaps<1>(shape, from, gradient, j, to);
  }
}

}  // namespace
}  // namespace mtf::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtf::cpu {

HWY_EXPORT(ConvolveRowImpl);
HWY_EXPORT(AddFilterGradientOfRowImpl);

void ConvolveRow(const DepthwiseShape& shape, const float* image,
                 const float* filter, int64_t row, float* result) {
  HWY_DYNAMIC_DISPATCH(ConvolveRowImpl)(shape, image, filter, row, result);
}

void AddFilterGradientOfRow(const DepthwiseShape& shape, const float* image,
                            const float* gradient, int64_t row, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddFilterGradientOfRowImpl)
  (shape, image, gradient, row, sums);
}

}  // namespace mtf::cpu
#endif  // HWY_ONCE
