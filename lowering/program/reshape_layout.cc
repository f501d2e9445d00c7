// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/reshape_layout.h"

#include <optional>

namespace mtf {
namespace {

// The mesh axes that shard dimensions [begin, end) taken as one row-major
// dimension: those of the most significant dimension, followed by those of the
// next if the shards of the one before are single elements. nullopt if shards
// are not contiguous or there is padding between elements; a replicated
// dimension of size 1 may be padded, because its one element comes first.
std::optional<AxisList> FlattenSharding(const Grains& grains,
                                        const Shape& shape,
                                        const TensorLayout& layout, int begin,
                                        int end) {
  AxisList axes;
  bool single = true;  // shards of all dimensions so far are single elements
  for (int i = begin; i < end; ++i) {
    const Dimension& dim = shape[i];
    if (dim.size == 1 && layout.dims[i].empty()) continue;
    if (grains.ExtentOf(dim) != dim.size) return std::nullopt;
    if (!layout.dims[i].empty() && !single) return std::nullopt;
    axes.Append(layout.dims[i]);
    single = single && grains.mesh().SizeOf(layout.dims[i]) == dim.size;
  }
  return axes;
}

// The inverse of FlattenSharding: distributes `axes` over dimensions [begin,
// end), most significant first. False if that is not possible.
bool SpreadSharding(const Grains& grains, const Shape& shape, int begin,
                    int end, AxisList axes, TensorLayout& layout) {
  const Mesh& mesh = grains.mesh();
  for (int i = begin; i < end; ++i) {
    const Dimension& dim = shape[i];
    if (dim.size == 1) continue;
    if (grains.ExtentOf(dim) != dim.size) return false;
    AxisList& sharding = layout.dims[i];
    int64_t shards = 1;
    int taken = 0;
    while (taken < axes.size() && shards < dim.size) {
      shards *= mesh.axis_size(axes[taken]);
      sharding.push_back(axes[taken++]);
    }
    if (dim.size == 0 || dim.size % shards != 0) return false;
    if ((SetOf(sharding) & ~grains.AxesOf(dim.name)) != 0) return false;
    axes = axes.Suffix(taken);
    if (shards < dim.size && !axes.empty()) return false;
  }
  return axes.empty();
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
    const bool rename = group.before_end - group.before_begin == 1 &&
                        group.after_end - group.after_begin == 1;
    bool kept = false;
    if (rename) {
      const Dimension& from = before[group.before_begin];
      const Dimension& to = after[group.after_begin];
      const AxisList& axes = layout.dims[group.before_begin];
      kept = grains.ExtentOf(from) == grains.ExtentOf(to) &&
             (SetOf(axes) & ~grains.AxesOf(to.name)) == 0;
      if (kept) result.after.dims[group.after_begin] = axes;
    } else {
      const std::optional<AxisList> axes = FlattenSharding(
          grains, before, layout, group.before_begin, group.before_end);
      TensorLayout spread = result.after;
      kept =
          axes.has_value() && SpreadSharding(grains, after, group.after_begin,
                                             group.after_end, *axes, spread);
      if (kept) result.after = spread;
    }
    if (!kept) {
      for (int i = group.before_begin; i < group.before_end; ++i) {
        result.before.dims[i] = {};
      }
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
