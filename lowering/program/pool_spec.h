// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_POOL_SPEC_H_
#define LOWERING_PROGRAM_POOL_SPEC_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "lowering/program/program.h"

namespace mtf {

// Windows along one dimension of dense memory [outer, line, inner]: element w
// of window i is row i * stride + w * dilation - before of the line, or `fill`
// if there is none. Extents are those of one device.
struct PoolWindows {
  int64_t outer = 1, line = 0, inner = 1;
  int64_t windows = 0, window = 0;
  int64_t stride = 1, dilation = 1, before = 0;
  double fill = 0;
};

// Reductions of windows, one dimension after the other, each of the results of
// the one before. The dimensions are in the order of the memory.
struct PoolSpec {
  struct Stage {
    PoolWindows windows;
    ReduceKind kind = ReduceKind::kMax;
    int reduce = -1;  // instruction, [outer, windows, inner]
    int map = -1;     // instruction, of the same elements; -1: none
  };
  int input = -1;  // value
  std::vector<Stage> stages;
};

// The gradients of such reductions, the last one first: each element of a
// window gets a share of the gradient of the window, and an element of the line
// the sum of its shares. Where the maximum was taken, only those elements get
// one that equal it.
struct PoolGradientSpec {
  struct Stage {
    PoolWindows windows;
    int input = -1, output = -1;  // values, of a maximum; -1: every element
    int hits = -1;                // value: how many elements equal the maximum
    // Instructions over [outer, windows, inner] that compute the share from the
    // hits, the result of the stage before and other values.
    std::vector<int> maps;
    int share = -1;   // value
    int result = -1;  // value, [outer, line, inner]
  };
  std::vector<Stage> stages;
};

// The poolings that `members`, instructions in ascending order, compute, or
// nothing. For each dimension, in which place_rows adds the padding of an
// unsharded one,
//
//   place_rows, windows, reduce, map
//
// where place_rows and the map may be absent. Requires f32, even shards of the
// dimension, and windows of at most kMostPooled elements whose padding does not
// change the reduction.
std::optional<PoolSpec> FindPool(const Program& program,
                                 absl::Span<const int> members);

// The gradients that `members` compute, or nothing. For each dimension
//
//   place_rows, windows, equal, reduce, map, select, fold_windows, place_rows
//   map, map, fold_windows, place_rows
//
// for a maximum or minimum, and for a sum, where the second map repeats its
// operands along the windows. Both place_rows and the first map may be absent.
std::optional<PoolGradientSpec> FindPoolGradient(const Program& program,
                                                 absl::Span<const int> members);

// More elements are not added up in f32.
inline constexpr int64_t kMostPooled = 256;

// Whether a place_rows only adds `fill` to an unsharded dimension, or is the
// transpose of one.
bool IsPadding(const Instruction& instruction);
// Whether a map is select(hit, share, 0), of the first two operands.
bool SelectsHits(const Instruction& instruction);
// Whether all operands of a map lack the window, the last dimension of the
// result, so that it is the same for all elements of one.
bool RepeatsAlongWindows(const Program& program, const Instruction& map);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_POOL_SPEC_H_
