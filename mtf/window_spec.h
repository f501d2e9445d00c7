// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_WINDOW_SPEC_H_
#define MTF_WINDOW_SPEC_H_

#include <cstdint>
#include <string>

#include "mtf/dimension.h"

namespace mtf {

// Windows along one dimension, or the sum of their elements back into it:
//
//   windows[..., i, ..., w] = x[..., i * stride + w * dilation - before, ...]
//   x[..., t, ...] = sum of windows[..., i, ..., w] over all i, w with
//                    i * stride + w * dilation - before = t
//
// An index outside of x reads `fill`, and its elements are left out of the sum;
// with `wrap` it is taken modulo the size of x.
struct WindowSpec {
  std::string dimension;  // of x; in the windows, it counts them
  Dimension window;       // w
  int64_t windows = 0;    // the size of `dimension` in the windows
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t before = 0;
  double fill = 0;
  bool wrap = false;

  // The elements from the first to the last one of a window.
  int64_t span() const {
    return window.size == 0 ? 0 : (window.size - 1) * dilation + 1;
  }
  // The elements from the first one of the first window to the last one of the
  // last window.
  int64_t extent() const {
    return windows == 0 ? 0 : (windows - 1) * stride + span();
  }
};

}  // namespace mtf

#endif  // MTF_WINDOW_SPEC_H_
