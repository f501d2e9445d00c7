// SPDX-License-Identifier: Apache-2.0
//
// PlanReshard: the reshards of common programs have a path that is known to be
// optimal; all others are searched.
#include <optional>

#include "layouts/reshard_path.h"
#include "layouts/reshard_search.h"
#include "mtf/check.h"

namespace mtf {
namespace {

using Path = std::vector<ReshardStep>;

bool IsPrefix(const AxisList& prefix, const AxisList& list) {
  return prefix.size() <= list.size() && list.Prefix(prefix.size()) == prefix;
}

// How the dimensions change between two layouts.
struct LayoutDifference {
  std::vector<int> longer;   // dimensions that only gain axes at the end
  std::vector<int> shorter;  // dimensions that only lose axes at the end
  bool other = false;        // some dimension changes in another way
};

LayoutDifference Compare(const TensorLayout& source,
                         const TensorLayout& target) {
  LayoutDifference difference;
  for (int i = 0; i < static_cast<int>(source.dims.size()); ++i) {
    if (source.dims[i] == target.dims[i]) continue;
    if (IsPrefix(source.dims[i], target.dims[i])) {
      difference.longer.push_back(i);
    } else if (IsPrefix(target.dims[i], source.dims[i])) {
      difference.shorter.push_back(i);
    } else {
      difference.other = true;
    }
  }
  return difference;
}

// One all_slice or all_gather for each of `dims`. This is optimal: a rank must
// receive the elements it lacks, and no collective changes two dimensions this
// way.
Path OneEach(CollectiveKind kind, const std::vector<int>& dims,
             const TensorLayout& source, const TensorLayout& target) {
  Path path;
  TensorLayout layout = source;
  for (int dim : dims) {
    const AxisList& before = source.dims[dim];
    const AxisList& after = target.dims[dim];
    layout.dims[dim] = after;
    path.push_back({kind, dim, -1,
                    kind == CollectiveKind::kAllSlice
                        ? after.Suffix(before.size())
                        : before.Suffix(after.size()),
                    layout});
  }
  return path;
}

// A path that is known to be optimal, or nullopt if it takes a search.
std::optional<Path> DirectPath(const internal::ReshardProblem& problem,
                               const TensorLayout& source,
                               const TensorLayout& target) {
  const LayoutDifference difference = Compare(source, target);
  if (difference.other) return std::nullopt;
  const std::vector<int>& longer = difference.longer;
  const std::vector<int>& shorter = difference.shorter;
  if (const AxisSet reduced = source.unreduced & ~target.unreduced) {
    // With a spare axis, replicas could divide the reduction among them.
    if (problem.HasSpareAxis() || !shorter.empty()) return std::nullopt;
    if (longer.empty()) {
      return Path{
          {CollectiveKind::kAllReduce, -1, -1, ListOf(reduced), target}};
    }
    if (longer.size() > 1) return std::nullopt;
    const int dim = longer[0];
    const AxisList added = target.dims[dim].Suffix(source.dims[dim].size());
    if (SetOf(added) != reduced) return std::nullopt;
    return Path{{CollectiveKind::kReduceScatter, dim, -1, added, target}};
  }
  if (shorter.empty()) {
    return OneEach(CollectiveKind::kAllSlice, longer, source, target);
  }
  if (longer.empty()) {
    return OneEach(CollectiveKind::kAllGather, shorter, source, target);
  }
  if (longer.size() == 1 && shorter.size() == 1) {
    const AxisList added =
        target.dims[longer[0]].Suffix(source.dims[longer[0]].size());
    const AxisList removed =
        source.dims[shorter[0]].Suffix(target.dims[shorter[0]].size());
    if (added == removed) {
      return Path{
          {CollectiveKind::kAllToAll, longer[0], shorter[0], added, target}};
    }
  }
  return std::nullopt;
}

}  // namespace

ReshardPlan SearchReshard(const Grains& grains, const Shape& shape,
                          const TensorLayout& source,
                          const TensorLayout& target, int64_t most_moves) {
  MTF_CHECK_EQ(shape.rank(), static_cast<int>(source.dims.size()));
  MTF_CHECK_EQ(shape.rank(), static_cast<int>(target.dims.size()));
  MTF_CHECK(source.IsLegal() && target.IsLegal())
      << LayoutText(grains.mesh(), shape, source) << " to "
      << LayoutText(grains.mesh(), shape, target);
  MTF_CHECK_EQ(target.unreduced & ~source.unreduced, AxisSet{0});
  if (source == target) return {};
  const internal::ReshardProblem problem(grains, shape, source, target);
  if (std::optional<Path> path = DirectPath(problem, source, target)) {
    return {.steps = *std::move(path)};
  }
  return problem.Search(most_moves);
}

std::vector<ReshardStep> PlanReshard(const Grains& grains, const Shape& shape,
                                     const TensorLayout& source,
                                     const TensorLayout& target) {
  return SearchReshard(grains, shape, source, target, kMostReshardMoves).steps;
}

}  // namespace mtf
