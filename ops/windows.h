// SPDX-License-Identifier: Apache-2.0
#ifndef OPS_WINDOWS_H_
#define OPS_WINDOWS_H_

#include <cstdint>
#include <source_location>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "mtf/dimension.h"
#include "mtf/tensor.h"

namespace mtf {

// How far windows reach beyond the ends of a dimension of `size` elements, for
// windows that span s = (window size - 1) * dilation + 1 elements.
enum class WindowPadding : uint8_t {
  // ceil(size / stride) windows. The elements that they need beyond the ends
  // are divided evenly; if their number is odd, one more is after the end.
  kSame,
  // floor((size - s) / stride) + 1 windows, all of them within the dimension.
  kValid,
  // floor((before + size + after - s) / stride) + 1 windows.
  kExplicit,
};

struct WindowOptions {
  int64_t stride = 1;    // from one window to the next
  int64_t dilation = 1;  // from one element of a window to the next
  WindowPadding padding = WindowPadding::kSame;
  int64_t before = 0, after = 0;  // of kExplicit
  // The value beyond the ends; -infinity for the maximum over a window.
  double fill = 0;
  // Continue beyond an end with the elements of the other end.
  bool wrap = false;
};

// The windows of `x` along `dim`, as a new last dimension `window`:
//
//   result[..., i, ..., w] = x[..., i * stride + w * dilation - before, ...]
//
// `dim` keeps its name and counts the windows. Any dtype. The gradient is
// FoldWindows. Where `dim` is sharded, neighbours exchange the elements that
// their windows share.
//
//   // A convolution of an image [batch, height, width, io], w [kh, kw, io, o].
//   Tensor y = Einsum({Windows(Windows(x, "height", kh), "width", kw), w},
//                     {batch, height, width, o});
//   // The maximum over 2x2 elements, in steps of 2.
//   const WindowOptions pool = {.stride = 2, .fill = -INFINITY};
//   Tensor z = MaxOver(Windows(Windows(y, "height", {"ph", 2}, pool),
//                              "width", {"pw", 2}, pool), {"ph", "pw"});
//
// Records kInvalidArgument in the graph if `x` lacks `dim` or has the window
// dimension already, an option is out of range, a window of kValid or kExplicit
// padding spans more than the dimension with its padding, or the dtype cannot
// represent the fill value. Returns an empty Tensor if `x` is empty.
Tensor Windows(Tensor x, absl::string_view dim, const Dimension& window,
               WindowOptions options = {},
               std::source_location location = std::source_location::current());

// The transpose of Windows: adds the elements of the windows back into `dim`,
// which gets `size` elements. Elements beyond the ends are left out, or with
// options.wrap added at the other end.
//
//   // x times the number of windows that have the element.
//   FoldWindows(Windows(x, "height", kh), "height", "kh", 32);
//
// This is a transposed convolution, too: of the product of `x` and a filter
// over [kh, ...]. The number of windows must be that of Windows of a dimension
// of `size`. The gradient is Windows. Float and integer dtypes. Errors as
// above.
Tensor FoldWindows(
    Tensor windows, absl::string_view dim, absl::string_view window,
    int64_t size, WindowOptions options = {},
    std::source_location location = std::source_location::current());

namespace internal {

// Checks that each option is in its range and has an effect.
absl::Status CheckWindowOptions(const WindowOptions& options);

}  // namespace internal
}  // namespace mtf

#endif  // OPS_WINDOWS_H_
