// SPDX-License-Identifier: Apache-2.0
//
// Kinds of convolutions that each device has to compute.
#ifndef TESTS_CONVOLUTION_CASES_H_
#define TESTS_CONVOLUTION_CASES_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "mtf/shape.h"
#include "ops/convolution.h"

namespace mtf::testing {

// The arguments of Convolution(x, filter, spatial, reduced).
struct ConvolutionCase {
  std::string name;
  Shape x, filter;
  std::vector<SpatialDimension> spatial;
  Shape reduced;

  friend void PrintTo(const ConvolutionCase& c, std::ostream* out) {
    *out << c.name;
  }
};

inline WindowOptions Padded(int64_t before, int64_t after, int64_t stride = 1,
                            int64_t dilation = 1) {
  return {.stride = stride,
          .dilation = dilation,
          .padding = WindowPadding::kExplicit,
          .before = before,
          .after = after};
}

// Every kind of padding, strides, dilation, one to three dimensions, filters in
// several orders, groups and depthwise filters. `width` is at least 4, for the
// dilated filter.
inline std::vector<ConvolutionCase> ConvolutionCases(const Dimension& batch,
                                                     const Dimension& height,
                                                     const Dimension& width) {
  const Dimension in{"in", 5}, out{"out", 7}, groups{"groups", 4}, kh{"kh", 3},
      kw{"kw", 2};
  const WindowOptions valid = {.padding = WindowPadding::kValid};
  const std::vector<SpatialDimension> image = {{"height", "kh"},
                                               {"width", "kw"}};
  const Shape x{batch, height, width, in}, filter{kh, kw, in, out};
  return {
      {"same", x, filter, image, {in}},
      {"valid",
       x,
       {out, in, kw, kh},
       {{"height", "kh", valid}, {"width", "kw", valid}},
       {in}},
      {"strided",
       x,
       filter,
       {{"height", "kh", Padded(1, 0, 2)}, {"width", "kw", Padded(0, 1, 3, 2)}},
       {in}},
      {"sequence",
       {batch, {"other", 2}, width, in},
       {kw, in, out},
       {{"width", "kw", Padded(1, 0)}},
       {in}},
      {"volume",
       {batch, {"depth", 4}, {"height", 5}, {"width", 4}, in},
       {kh, {"kd", 2}, kw, in, out},
       {{"depth", "kd"}, {"height", "kh"}, {"width", "kw"}},
       {in}},
      {"grouped",
       {batch, height, width, groups, in},
       {kh, kw, in, groups, out},
       image,
       {in}},
      {"depthwise",
       {batch, height, width, groups},
       {kh, kw, groups},
       image,
       {}},
  };
}

}  // namespace mtf::testing

#endif  // TESTS_CONVOLUTION_CASES_H_
