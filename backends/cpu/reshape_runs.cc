// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/reshape_runs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mtf/check.h"

namespace mtf::cpu {
namespace {

// A dimension with its true size and the shard of this rank.
struct LocalDim {
  int64_t size;
  ShardedDimension local;
  bool IsUnsharded() const {
    return local.extent == size && local.valid == size && local.offset == 0;
  }
};

// Consecutive dimensions of one value that correspond to consecutive dimensions
// of the other.
using Side = std::vector<LocalDim>;

std::vector<LocalDim> LocalDimsOf(const BoundValue& value) {
  std::vector<LocalDim> dims;
  for (int i = 0; i < value.value->shape.rank(); ++i) {
    const LocalDim dim{value.value->shape[i].size, value.dims[i]};
    if (dim.size == 1 && dim.local.extent == 1 && dim.local.valid == 1) {
      continue;
    }
    dims.push_back(dim);
  }
  return dims;
}

bool IsRename(const std::vector<LocalDim>& from,
              const std::vector<LocalDim>& to) {
  const auto same = [](const LocalDim& a, const LocalDim& b) {
    return a.size == b.size && a.local == b.local;
  };
  return from.size() == to.size() &&
         std::equal(from.begin(), from.end(), to.begin(), same);
}

// Merges every unsharded dimension into the one before it; the valid elements
// of the merged dimension are still a prefix.
Side Folded(const Side& side) {
  Side folded;
  for (const LocalDim& dim : side) {
    if (folded.empty() || !dim.IsUnsharded()) {
      folded.push_back(dim);
      continue;
    }
    LocalDim& outer = folded.back();
    outer.size *= dim.size;
    outer.local.extent *= dim.size;
    outer.local.offset *= dim.size;
    outer.local.valid *= dim.size;
  }
  return folded;
}

int64_t Extent(const Side& side) {
  int64_t extent = 1;
  for (const LocalDim& dim : side) extent *= dim.local.extent;
  return extent;
}

// The local offset of the element with global index `index`, and the number of
// following indices with consecutive offsets, including itself; {0, 0} if this
// rank does not hold the element.
std::pair<int64_t, int64_t> Find(const Side& side, int64_t index) {
  int64_t offset = 0, stride = 1, run = 1;
  for (int i = static_cast<int>(side.size()) - 1; i >= 0; --i) {
    const LocalDim& dim = side[i];
    const int64_t at = index % dim.size - dim.local.offset;
    index /= dim.size;
    if (at < 0 || at >= dim.local.valid) return {0, 0};
    if (i == static_cast<int>(side.size()) - 1) run = dim.local.valid - at;
    offset += at * stride;
    stride *= dim.local.extent;
  }
  return {offset, run};
}

// Corresponding elements of two sides: `times` runs of `count` contiguous ones.
struct Runs {
  int64_t from, to, count;
  int64_t times = 1, from_step = 0, to_step = 0;
};

std::vector<Runs> MatchSides(const Side& from, const Side& to) {
  std::vector<Runs> all;
  // Walks the rows of the local shard of `from`.
  Side rows = from;
  LocalDim last{1, {1, 0, 1}};
  if (!rows.empty()) {
    last = rows.back();
    rows.pop_back();
  }
  int64_t num_rows = 1;
  for (const LocalDim& dim : rows) num_rows *= dim.local.valid;
  for (int64_t row = 0; row < num_rows; ++row) {
    int64_t index = 0, offset = 0, size = 1, stride = 1, rest = row;
    for (auto dim = rows.rbegin(); dim != rows.rend(); ++dim) {
      const int64_t at = rest % dim->local.valid;
      rest /= dim->local.valid;
      index += (dim->local.offset + at) * size;
      offset += at * stride;
      size *= dim->size;
      stride *= dim->local.extent;
    }
    index = index * last.size + last.local.offset;
    offset *= last.local.extent;
    for (int64_t done = 0; done < last.local.valid;) {
      const auto [target, run] = Find(to, index + done);
      if (run == 0) {
        ++done;
        continue;
      }
      const int64_t count = std::min(run, last.local.valid - done);
      const Runs next{offset + done, target, count};
      done += count;
      if (!all.empty() && all.back().count == count) {
        Runs& runs = all.back();
        const int64_t from_step =
            next.from - runs.from - (runs.times - 1) * runs.from_step;
        const int64_t to_step =
            next.to - runs.to - (runs.times - 1) * runs.to_step;
        if (runs.times == 1 ||
            (from_step == runs.from_step && to_step == runs.to_step)) {
          runs.from_step = from_step;
          runs.to_step = to_step;
          ++runs.times;
          continue;
        }
      }
      all.push_back(next);
    }
  }
  return all;
}

int64_t Elements(const std::vector<LocalDim>& dims) {
  int64_t elements = 1;
  for (const LocalDim& dim : dims) elements *= dim.size;
  return elements;
}

}  // namespace

ReshapeRuns FindReshapeRuns(const BoundValue& from, const BoundValue& to) {
  const std::vector<LocalDim> from_dims = LocalDimsOf(from),
                              to_dims = LocalDimsOf(to);
  if (IsRename(from_dims, to_dims)) {
    return {{{0, 0, {{to.elements(), 1, 1}}}}, true};
  }
  MTF_CHECK_EQ(Elements(from_dims), Elements(to_dims));
  if (Elements(to_dims) == 0) return {{}, false};
  ReshapeRuns result;
  result.boxes.push_back({});
  int64_t covered = 1;
  int64_t from_inner = from.elements(), to_inner = to.elements();
  size_t i = 0, j = 0;
  while (i < from_dims.size() || j < to_dims.size()) {
    // Take the next dimensions of both sides with equal numbers of elements.
    Side from_side, to_side;
    int64_t from_size = 1, to_size = 1;
    const auto take_from = [&] {
      from_side.push_back(from_dims[i++]);
      from_size *= from_side.back().size;
    };
    const auto take_to = [&] {
      to_side.push_back(to_dims[j++]);
      to_size *= to_side.back().size;
    };
    if (i < from_dims.size()) take_from();
    if (j < to_dims.size()) take_to();
    while (from_size != to_size) from_size < to_size ? take_from() : take_to();
    from_inner /= std::max<int64_t>(Extent(from_side), 1);
    to_inner /= std::max<int64_t>(Extent(to_side), 1);

    const std::vector<Runs> runs =
        MatchSides(Folded(from_side), Folded(to_side));
    int64_t elements = 0;
    std::vector<ReshapeRuns::Box> boxes;
    for (const Runs& run : runs) {
      elements += run.times * run.count;
      for (ReshapeRuns::Box box : result.boxes) {
        box.from += run.from * from_inner;
        box.to += run.to * to_inner;
        box.loops.push_back(
            {run.times, run.from_step * from_inner, run.to_step * to_inner});
        box.loops.push_back({run.count, from_inner, to_inner});
        boxes.push_back(std::move(box));
      }
    }
    covered *= elements;
    result.boxes = std::move(boxes);
  }
  result.complete = covered == to.elements();
  return result;
}

}  // namespace mtf::cpu
