// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_CODEGEN_LOOP_NEST_H_
#define BACKENDS_CUDA_CODEGEN_LOOP_NEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace mtf::cuda {

// Several dimensions indexed by one variable of a kernel, in row-major order,
// with the strides of a few arrays along them. Writes the text that splits the
// index into coordinates and computes the arrays' offsets, with all constants
// folded.
//
//   LoopNest nest("i", 2);                // for two arrays
//   nest.Add("a", 4, {24, 0}, false);     // strides in elements
//   nest.Add("b", 3, {8, 1}, false);
//   nest.Add("c", 8, {1, 0}, false);
//   nest.Offset(0)                        // "i"
//   nest.Offset(1)                        // "i_1"
//   nest.Coordinates("  ")                // "  const Index i_1 = i / 8 % 3;\n"
class LoopNest {
 public:
  LoopNest(std::string index, int arrays)
      : index_(std::move(index)), arrays_(arrays) {}

  // Adds the next inner dimension with its stride in each array (0 if the array
  // lacks it). A `counted` dimension, one that an iota reads, keeps its own
  // coordinate; others merge with their neighbour if all arrays allow it.
  void Add(const std::string& dimension, int64_t extent,
           std::vector<int64_t> strides, bool counted);

  const std::string& index() const { return index_; }
  int64_t elements() const { return elements_; }
  // Of the innermost loop; 1 and 0 if there is none.
  int64_t inner_extent() const;
  int64_t inner_stride(int array) const;
  // Whether packs of `width` elements tile the innermost loop: `width` divides
  // its extent.
  bool InnerDivides(int64_t width) const { return inner_extent() % width == 0; }
  // Whether every offset of the array is a multiple of `width`; if its
  // innermost stride is 1, only the offset of every `width`th element.
  bool OffsetsDivide(int array, int64_t width) const;
  // The same for an index that may be any number.
  bool StridesDivide(int array, int64_t width) const;
  // The greatest offset of an array, to choose an index type.
  int64_t Reach(int array) const;

  // Declares the coordinates that Offset and Coordinate use.
  std::string Coordinates(absl::string_view indent) const;
  // The offset of the array's element: a sum of terms, or "" for 0.
  std::string Offset(int array) const;
  // The coordinate of a counted dimension: "i_1"; "0" if its extent is 1; "" if
  // the nest lacks it.
  std::string Coordinate(const std::string& dimension) const;
  bool IsInner(const std::string& dimension) const;

  struct Loop {
    int64_t extent;
    std::vector<int64_t> strides;
    std::string counted;  // the dimension, or ""
  };
  // Outermost first.
  const std::vector<Loop>& loops() const { return loops_; }
  void Add(const Loop& loop) {
    Add(loop.counted, loop.extent, loop.strides, !loop.counted.empty());
  }
  // Adopts the counted dimensions of extent 1, which are in no loop.
  void AddSingles(const LoopNest& other) {
    single_.insert(single_.end(), other.single_.begin(), other.single_.end());
  }

 private:
  // Whether the offset is the index times one stride.
  bool IsLinear(int array) const;
  std::string Name(size_t loop) const;

  std::string index_;
  int arrays_;
  int64_t elements_ = 1;
  std::vector<Loop> loops_;          // outermost first
  std::vector<std::string> single_;  // counted dimensions of extent 1
};

// "a + b" without the empty terms; "0" if all are empty.
std::string SumText(const std::vector<std::string>& terms);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_CODEGEN_LOOP_NEST_H_
