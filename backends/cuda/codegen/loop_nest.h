// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CUDA_CODEGEN_LOOP_NEST_H_
#define BACKENDS_CUDA_CODEGEN_LOOP_NEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace mtf::cuda {

// A run of dimensions whose places one index of a kernel counts in row-major
// order, and where a few arrays lie along it. Writes the text that takes the
// index apart and finds the places, with every constant folded.
//
//   LoopNest nest("i", 2);                // for two arrays
//   nest.Add("a", 4, {24, 0}, false);     // strides in elements
//   nest.Add("b", 3, {8, 1}, false);
//   nest.Add("c", 8, {1, 0}, false);
//   nest.Place(0)                         // "i"
//   nest.Place(1)                         // "i_1"
//   nest.Coordinates("  ")                // "  const Index i_1 = i / 8 % 3;\n"
class LoopNest {
 public:
  LoopNest(std::string index, int arrays)
      : index_(std::move(index)), arrays_(arrays) {}

  // The next dimension inwards, with its stride in each array, 0 where the
  // array lacks it. One that is `counted` (by an iota) keeps a coordinate of
  // its own; others fold into their neighbour where all arrays allow it.
  void Add(const std::string& dimension, int64_t extent,
           std::vector<int64_t> strides, bool counted);

  const std::string& index() const { return index_; }
  int64_t elements() const { return elements_; }
  // Of the innermost loop, 1 and 0 where there is none.
  int64_t inner_extent() const;
  int64_t inner_stride(int array) const;
  // Whether `width` neighbours along the innermost loop may be taken at once
  // where an array has them one behind the other: `width` divides its extent.
  bool InnerDivides(int64_t width) const { return inner_extent() % width == 0; }
  // Whether every place that this nest reaches in the array is a multiple of
  // `width`, of the innermost loop every `width`th where that has stride 1.
  bool PlacesDivide(int array, int64_t width) const;
  // The same where the index may be any number.
  bool StridesDivide(int array, int64_t width) const;
  // The greatest place of an array, for the choice of an index type.
  int64_t Reach(int array) const;

  // Declares the coordinates that Place and Coordinate name.
  std::string Coordinates(absl::string_view indent) const;
  // Where the array's element is: a sum of terms, or "" for 0.
  std::string Place(int array) const;
  // The coordinate of a counted dimension: "i_1"; "0" for one of one place. ""
  // where the nest lacks it.
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
  // Takes over the counted dimensions of one place, which are in no loop.
  void AddSingles(const LoopNest& other) {
    single_.insert(single_.end(), other.single_.begin(), other.single_.end());
  }

 private:
  // Whether one stride does for all loops: the place is the index times it.
  bool IsLinear(int array) const;
  std::string Name(size_t loop) const;

  std::string index_;
  int arrays_;
  int64_t elements_ = 1;
  std::vector<Loop> loops_;          // outermost first
  std::vector<std::string> single_;  // counted dimensions of one place
};

// "a + b", leaving out what is empty; "0" for nothing.
std::string SumText(const std::vector<std::string>& terms);

}  // namespace mtf::cuda

#endif  // BACKENDS_CUDA_CODEGEN_LOOP_NEST_H_
