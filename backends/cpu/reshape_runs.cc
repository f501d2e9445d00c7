// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/reshape_runs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mtf/check.h"

namespace mtf::cpu {
namespace {

// A dimension with its true size and what the rank holds of it.
struct Part {
  int64_t size;
  ShardedDimension local;
  bool IsWhole() const {
    return local.extent == size && local.valid == size && local.offset == 0;
  }
};

// Neighbouring dimensions of one side that correspond to some of the other.
using Side = std::vector<Part>;

std::vector<Part> PartsOf(const BoundValue& value) {
  std::vector<Part> parts;
  for (int i = 0; i < value.value->shape.rank(); ++i) {
    const Part part{value.value->shape[i].size, value.dims[i]};
    if (part.size == 1 && part.local.extent == 1 && part.local.valid == 1) {
      continue;
    }
    parts.push_back(part);
  }
  return parts;
}

bool IsRename(const std::vector<Part>& from, const std::vector<Part>& to) {
  const auto same = [](const Part& a, const Part& b) {
    return a.size == b.size && a.local == b.local;
  };
  return from.size() == to.size() &&
         std::equal(from.begin(), from.end(), to.begin(), same);
}

// Folds every dimension that is whole into the one before it: valid elements of
// the outer one stay a prefix.
Side Folded(const Side& side) {
  Side folded;
  for (const Part& part : side) {
    if (folded.empty() || !part.IsWhole()) {
      folded.push_back(part);
      continue;
    }
    Part& outer = folded.back();
    outer.size *= part.size;
    outer.local.extent *= part.size;
    outer.local.offset *= part.size;
    outer.local.valid *= part.size;
  }
  return folded;
}

int64_t Extent(const Side& side) {
  int64_t extent = 1;
  for (const Part& part : side) extent *= part.local.extent;
  return extent;
}

// The local place of the element with global index `index` of the side, and for
// how many indices from there on places go up one by one; 0 where it is not
// held.
std::pair<int64_t, int64_t> Find(const Side& side, int64_t index) {
  int64_t place = 0, stride = 1, run = 1;
  for (int i = static_cast<int>(side.size()) - 1; i >= 0; --i) {
    const Part& part = side[i];
    const int64_t at = index % part.size - part.local.offset;
    index /= part.size;
    if (at < 0 || at >= part.local.valid) return {0, 0};
    if (i == static_cast<int>(side.size()) - 1) run = part.local.valid - at;
    place += at * stride;
    stride *= part.local.extent;
  }
  return {place, run};
}

// Elements of two sides that correspond: `times` runs of `count` neighbours.
struct Runs {
  int64_t from, to, count;
  int64_t times = 1, from_step = 0, to_step = 0;
};

std::vector<Runs> MatchSides(const Side& from, const Side& to) {
  std::vector<Runs> all;
  // Row by row of what `from` holds.
  Side rows = from;
  Part last{1, {1, 0, 1}};
  if (!rows.empty()) {
    last = rows.back();
    rows.pop_back();
  }
  int64_t num_rows = 1;
  for (const Part& part : rows) num_rows *= part.local.valid;
  for (int64_t row = 0; row < num_rows; ++row) {
    int64_t index = 0, place = 0, size = 1, stride = 1, rest = row;
    for (auto part = rows.rbegin(); part != rows.rend(); ++part) {
      const int64_t at = rest % part->local.valid;
      rest /= part->local.valid;
      index += (part->local.offset + at) * size;
      place += at * stride;
      size *= part->size;
      stride *= part->local.extent;
    }
    index = index * last.size + last.local.offset;
    place *= last.local.extent;
    for (int64_t done = 0; done < last.local.valid;) {
      const auto [target, run] = Find(to, index + done);
      if (run == 0) {
        ++done;
        continue;
      }
      const int64_t count = std::min(run, last.local.valid - done);
      const Runs next{place + done, target, count};
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

int64_t Elements(const std::vector<Part>& parts) {
  int64_t elements = 1;
  for (const Part& part : parts) elements *= part.size;
  return elements;
}

}  // namespace

ReshapeRuns FindReshapeRuns(const BoundValue& from, const BoundValue& to) {
  const std::vector<Part> from_parts = PartsOf(from), to_parts = PartsOf(to);
  if (IsRename(from_parts, to_parts)) {
    return {{{0, 0, {{to.elements(), 1, 1}}}}, true};
  }
  MTF_CHECK_EQ(Elements(from_parts), Elements(to_parts));
  if (Elements(to_parts) == 0) return {{}, false};
  ReshapeRuns result;
  result.boxes.push_back({});
  int64_t covered = 1;
  int64_t from_inner = from.elements(), to_inner = to.elements();
  size_t i = 0, j = 0;
  while (i < from_parts.size() || j < to_parts.size()) {
    // The next dimensions of either side that make the same number of elements.
    Side from_side, to_side;
    int64_t from_size = 1, to_size = 1;
    const auto take_from = [&] {
      from_side.push_back(from_parts[i++]);
      from_size *= from_side.back().size;
    };
    const auto take_to = [&] {
      to_side.push_back(to_parts[j++]);
      to_size *= to_side.back().size;
    };
    if (i < from_parts.size()) take_from();
    if (j < to_parts.size()) take_to();
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
