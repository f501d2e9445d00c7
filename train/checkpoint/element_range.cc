// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/element_range.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtf::train {

ElementRanges AllElements(absl::Span<const int64_t> sizes) {
  ElementRanges ranges;
  for (int64_t size : sizes) ranges.push_back({0, size});
  return ranges;
}

int64_t NumElements(const ElementRanges& ranges) {
  int64_t elements = 1;
  for (const ElementRange& range : ranges) elements *= range.size;
  return elements;
}

bool IsWithin(const ElementRanges& ranges, absl::Span<const int64_t> sizes) {
  if (ranges.size() != sizes.size()) return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const ElementRange& range = ranges[i];
    if (range.begin < 0 || range.size < 0 || range.begin > sizes[i] ||
        range.size > sizes[i] - range.begin) {
      return false;
    }
  }
  return true;
}

ElementRanges Intersection(const ElementRanges& a, const ElementRanges& b) {
  ElementRanges both;
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t begin = std::max(a[i].begin, b[i].begin);
    const int64_t end =
        std::min(a[i].begin + a[i].size, b[i].begin + b[i].size);
    both.push_back({begin, std::max<int64_t>(end - begin, 0)});
  }
  return both;
}

std::vector<int64_t> SizesOf(const ElementRanges& ranges) {
  std::vector<int64_t> sizes;
  for (const ElementRange& range : ranges) sizes.push_back(range.size);
  return sizes;
}

void ForEachRun(
    const ElementRanges& part, const ElementRanges& source,
    const ElementRanges& target,
    absl::FunctionRef<bool(int64_t from, int64_t to, int64_t count)> run) {
  if (NumElements(part) == 0) return;
  // The dimensions from `inner` on form one run: all of them but the first are
  // complete in both tensors.
  const int rank = static_cast<int>(part.size());
  int inner = rank;
  int64_t count = 1;
  while (inner > 0) {
    --inner;
    count *= part[inner].size;
    if (part[inner] != source[inner] || part[inner] != target[inner]) break;
  }
  std::vector<int64_t> from_stride(rank, 1), to_stride(rank, 1);
  for (int i = rank - 2; i >= 0; --i) {
    from_stride[i] = from_stride[i + 1] * source[i + 1].size;
    to_stride[i] = to_stride[i + 1] * target[i + 1].size;
  }
  int64_t from = 0, to = 0;
  for (int i = 0; i < rank; ++i) {
    from += (part[i].begin - source[i].begin) * from_stride[i];
    to += (part[i].begin - target[i].begin) * to_stride[i];
  }
  std::vector<int64_t> index(inner, 0);
  while (run(from, to, count)) {
    int i = inner - 1;
    for (; i >= 0; --i) {
      from += from_stride[i];
      to += to_stride[i];
      if (++index[i] < part[i].size) break;
      from -= index[i] * from_stride[i];
      to -= index[i] * to_stride[i];
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

std::string RangesText(const ElementRanges& ranges) {
  return absl::StrCat(
      "[",
      absl::StrJoin(ranges, ", ",
                    [](std::string* out, const ElementRange& range) {
                      absl::StrAppend(out, range.begin, ":",
                                      range.begin + range.size);
                    }),
      "]");
}

}  // namespace mtf::train
