// SPDX-License-Identifier: Apache-2.0
#include "layouts/layout_pairs.h"

#include <algorithm>

#include "mtf/check.h"

namespace mtf::internal {
namespace {

// The number of ways to divide a list of `length` axes, in order, among
// `dimensions` dimensions.
int64_t Divisions(int length, int dimensions) {
  if (dimensions <= 1) return dimensions == 1 || length == 0;
  int64_t count = 0;
  for (int first = 0; first <= length; ++first) {
    count += Divisions(length - first, dimensions - 1);
  }
  return count;
}

// The number of ordered lists of `length` out of `axes` axes.
int64_t Arrangements(int axes, int length) {
  int64_t count = 1;
  for (int i = 0; i < length; ++i) count *= axes - i;
  return count;
}

}  // namespace

LayoutPairs::LayoutPairs(const Mesh& mesh, int dimensions)
    : axes_(mesh.num_axes()), dimensions_(dimensions) {
  const AxisSet all = (AxisSet{1} << axes_) - 1;
  for (AxisSet source = 0; source <= all; ++source) {
    for (AxisSet target = 0; target <= source; ++target) {
      if ((target & ~source) != 0) continue;
      blocks_.push_back({source, target, size_});
      size_ += LayoutsWith(source) * LayoutsWith(target);
    }
  }
}

std::pair<TensorLayout, TensorLayout> LayoutPairs::At(int64_t number) const {
  MTF_CHECK(number >= 0 && number < size_) << number << " of " << size_;
  const Block& block =
      *(std::upper_bound(
            blocks_.begin(), blocks_.end(), number,
            [](int64_t n, const Block& after) { return n < after.begin; }) -
        1);
  const int64_t targets = LayoutsWith(block.target);
  number -= block.begin;
  return {LayoutAt(block.source, number / targets),
          LayoutAt(block.target, number % targets)};
}

int64_t LayoutPairs::ListsOf(int axes, int length) const {
  return Arrangements(axes, length) * Divisions(length, dimensions_);
}

int64_t LayoutPairs::LayoutsWith(AxisSet unreduced) const {
  const int axes = axes_ - ListOf(unreduced).size();
  int64_t count = 0;
  for (int length = 0; length <= axes; ++length) count += ListsOf(axes, length);
  return count;
}

TensorLayout LayoutPairs::LayoutAt(AxisSet unreduced, int64_t number) const {
  AxisList rest = ListOf(~unreduced & ((AxisSet{1} << axes_) - 1));
  int length = 0;
  for (; number >= ListsOf(rest.size(), length); ++length) {
    number -= ListsOf(rest.size(), length);
  }
  int64_t division = number % Divisions(length, dimensions_);
  number /= Divisions(length, dimensions_);

  TensorLayout layout = TensorLayout::Replicated(dimensions_);
  layout.unreduced = unreduced;
  for (int dim = 0; dim < dimensions_; ++dim) {
    // The dimension takes `count` axes, and the later ones the others.
    int count = dim + 1 == dimensions_ ? length : 0;
    for (; dim + 1 < dimensions_; ++count) {
      const int64_t others = Divisions(length - count, dimensions_ - dim - 1);
      if (division < others) break;
      division -= others;
    }
    for (int i = 0; i < count; ++i) {
      const int choice = static_cast<int>(number % rest.size());
      number /= rest.size();
      layout.dims[dim].push_back(rest[choice]);
      AxisList left = rest.Prefix(choice);
      left.Append(rest.Suffix(choice + 1));
      rest = left;
    }
    length -= count;
  }
  return layout;
}

}  // namespace mtf::internal
