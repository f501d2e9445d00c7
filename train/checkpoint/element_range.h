// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CHECKPOINT_ELEMENT_RANGE_H_
#define TRAIN_CHECKPOINT_ELEMENT_RANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace mtf::train {

// The elements [begin, begin + size) of one dimension. A rectangular range of a
// tensor has one for each dimension, in its order.
struct ElementRange {
  int64_t begin = 0;
  int64_t size = 0;
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};
using ElementRanges = std::vector<ElementRange>;

// All elements of a tensor of these sizes.
ElementRanges AllElements(absl::Span<const int64_t> sizes);

// The number of elements in a range, and whether it is within a tensor of these
// sizes. The latter says so without overflow, whatever the numbers.
int64_t NumElements(const ElementRanges& ranges);
bool IsWithin(const ElementRanges& ranges, absl::Span<const int64_t> sizes);

// The elements in both ranges of one tensor; empty sizes if there are none.
ElementRanges Intersection(const ElementRanges& a, const ElementRanges& b);

// The sizes of a range.
std::vector<int64_t> SizesOf(const ElementRanges& ranges);

// Calls run(from, to, count) for each run of elements of `part` that is
// contiguous in row-major tensors of both the ranges `source` and `target`,
// which contain `part`. `from` and `to` are the indices of the first element of
// the run in these tensors; `from` increases. Stops when `run` returns false.
//
//   // Copies what `shard` has of `wanted`.
//   ForEachRun(Intersection(shard, wanted), shard, wanted,
//              [&](int64_t from, int64_t to, int64_t count) {
//                std::copy_n(shard_data + from, count, wanted_data + to);
//                return true;
//              });
void ForEachRun(
    const ElementRanges& part, const ElementRanges& source,
    const ElementRanges& target,
    absl::FunctionRef<bool(int64_t from, int64_t to, int64_t count)> run);

// "[0:128, 32:64]", for messages.
std::string RangesText(const ElementRanges& ranges);

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_ELEMENT_RANGE_H_
