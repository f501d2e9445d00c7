// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/reshape_layout.h"

#include <optional>

namespace mtf {
namespace {

// How several dimensions are sharded, taken as one row-major dimension.
struct FlatSharding {
  AxisList axes;
  int64_t extent = 0;  // padded, divided evenly among the shards; 0 without any
  friend bool operator==(const FlatSharding&, const FlatSharding&) = default;
};

// The sharding of dimensions [begin, end): that of the most significant one,
// followed by that of the next if the shards of the one before are single
// elements. nullopt if shards are not contiguous.
std::optional<FlatSharding> FlattenSharding(const Grains& grains,
                                            const Shape& shape,
                                            const TensorLayout& layout,
                                            int begin, int end) {
  FlatSharding flat;
  bool first = true;   // no dimension so far has more than one element
  bool single = true;  // shards of all dimensions so far are single elements
  int64_t extent = 1;
  for (int i = begin; i < end; ++i) {
    const Dimension& dim = shape[i];
    const AxisList& axes = layout.dims[i];
    const int64_t own = axes.empty() ? dim.size : grains.ExtentOf(dim);
    // Padding can only follow the last element of the tensor.
    if (!axes.empty() && (!single || (!first && own != dim.size))) {
      return std::nullopt;
    }
    extent *= own;
    flat.axes.Append(axes);
    single = single && grains.mesh().SizeOf(axes) == own;
    first = first && own == 1;
  }
  if (!flat.axes.empty()) flat.extent = extent;
  return flat;
}

// The inverse of FlattenSharding: distributes `flat` over dimensions [begin,
// end), most significant first. False if that is not possible.
bool SpreadSharding(const Grains& grains, const Shape& shape, int begin,
                    int end, const FlatSharding& flat, TensorLayout& layout) {
  AxisList axes = flat.axes;
  for (int i = begin; i < end && !axes.empty(); ++i) {
    if (shape[i].size == 1) continue;
    const int64_t extent = grains.ExtentOf(shape[i]);
    int64_t shards = 1;
    int taken = 0;
    while (taken < axes.size() && shards < extent) {
      shards *= grains.mesh().axis_size(axes[taken]);
      layout.dims[i].push_back(axes[taken++]);
    }
    if (extent == 0 || extent % shards != 0) return false;
    axes = axes.Suffix(taken);
  }
  return FlattenSharding(grains, shape, layout, begin, end) == flat;
}

// Carries the sharding of the first dimensions of a group to the others, into
// `result`. False if no sharding of those has the same elements on every
// device.
bool CarryThroughGroup(const Grains& grains, const Shape& before,
                       const TensorLayout& layout, const Shape& after,
                       const ReshapeGroup& group, TensorLayout& result) {
  if (group.IsRename()) {
    const int64_t extent = grains.ExtentOf(after[group.after_begin]);
    const AxisList& axes = layout.dims[group.before_begin];
    result.dims[group.after_begin] = axes;
    return grains.ExtentOf(before[group.before_begin]) == extent &&
           extent % grains.mesh().SizeOf(axes) == 0;
  }
  const std::optional<FlatSharding> flat = FlattenSharding(
      grains, before, layout, group.before_begin, group.before_end);
  return flat.has_value() && SpreadSharding(grains, after, group.after_begin,
                                            group.after_end, *flat, result);
}

// Whether the rules can shard dimensions [begin, end) as `layout` does.
bool FollowsGrains(const Grains& grains, const Shape& shape,
                   const TensorLayout& layout, int begin, int end) {
  for (int i = begin; i < end; ++i) {
    if ((SetOf(layout.dims[i]) & ~grains.AxesOf(shape[i].name)) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<ReshapeGroup> GroupReshape(const Shape& before,
                                       const Shape& after) {
  std::vector<ReshapeGroup> groups;
  int i = 0, j = 0;
  while (i < before.rank() || j < after.rank()) {
    ReshapeGroup group{i, i, j, j};
    // A dimension of size 1 on one side only is a group of its own.
    const bool unit_before = i < before.rank() && before[i].size == 1;
    const bool unit_after = j < after.rank() && after[j].size == 1;
    if (unit_before != unit_after) {
      group.before_end = i += unit_before;
      group.after_end = j += unit_after;
      groups.push_back(group);
      continue;
    }
    int64_t left = 1, right = 1;
    if (i < before.rank()) left = before[i++].size;
    if (j < after.rank()) right = after[j++].size;
    while (left != right) {
      // A size of 0 on one side is grouped with all that remains on the other.
      if ((left < right && left != 0 && i < before.rank()) ||
          j >= after.rank()) {
        if (i >= before.rank()) break;
        left *= before[i++].size;
      } else {
        right *= after[j++].size;
      }
    }
    group.before_end = i;
    group.after_end = j;
    groups.push_back(group);
  }
  return groups;
}

ReshapeLayouts LineUpReshape(const Grains& grains, const Shape& before,
                             const TensorLayout& layout, const Shape& after) {
  ReshapeLayouts result;
  result.before = layout;
  result.after = TensorLayout::Replicated(after.rank());
  for (const ReshapeGroup& group : GroupReshape(before, after)) {
    TensorLayout carried = result.after;
    const bool kept =
        CarryThroughGroup(grains, before, layout, after, group, carried) &&
        FollowsGrains(grains, after, carried, group.after_begin,
                      group.after_end);
    if (kept) result.after = carried;
    if (!kept) {
      for (int i = group.before_begin; i < group.before_end; ++i) {
        result.before.dims[i] = {};
      }
    }
  }
  return result;
}

std::optional<TensorLayout> CarryThroughReshape(const Grains& grains,
                                                const Shape& before,
                                                const TensorLayout& layout,
                                                const Shape& after) {
  TensorLayout result = TensorLayout::Replicated(after.rank());
  result.unreduced = layout.unreduced;
  result.reduction = layout.reduction;
  for (const ReshapeGroup& group : GroupReshape(before, after)) {
    if (!CarryThroughGroup(grains, before, layout, after, group, result)) {
      return std::nullopt;
    }
  }
  return result;
}

bool IsRelabel(const ProgramValue& from, const ProgramValue& to,
               std::vector<std::pair<int, int>>* pairs) {
  if (pairs != nullptr) pairs->clear();
  const auto next = [](const ProgramValue& value, int i) {
    while (i < value.shape.rank() && value.local[i] == 1 &&
           value.shape[i].size == 1) {
      ++i;
    }
    return i;
  };
  int i = next(from, 0), j = next(to, 0);
  while (i < from.shape.rank() && j < to.shape.rank()) {
    if (from.shape[i].size != to.shape[j].size ||
        from.local[i] != to.local[j]) {
      break;
    }
    if (pairs != nullptr) pairs->push_back({i, j});
    i = next(from, i + 1);
    j = next(to, j + 1);
  }
  if (i == from.shape.rank() && j == to.shape.rank()) return true;
  if (pairs != nullptr) pairs->clear();
  return false;
}

}  // namespace mtf
