// SPDX-License-Identifier: Apache-2.0
#include "lowering/emit/lookup_layouts.h"

#include <utility>

namespace mtf {
namespace {

// More axes than this are treated alike, because of the number of choices.
constexpr int kMaxSeparateAxes = 3;

AxisList Without(const AxisList& list, AxisSet removed) {
  AxisList kept;
  for (int axis : list) {
    if (!(removed >> axis & 1)) kept.push_back(axis);
  }
  return kept;
}

void RemoveFromIndices(const LookupShapes& shapes, AxisSet axes,
                       LookupLayouts& layouts) {
  for (int i = 0; i < shapes.indices.rank(); ++i) {
    AxisList& list = layouts.indices.dims[i];
    list = Without(list, axes);
    layouts.rows.dims[shapes.rows.Find(shapes.indices[i].name)] = list;
  }
}

}  // namespace

std::vector<LookupLayouts> PossibleLookups(const LookupShapes& shapes,
                                           const LookupLayouts& rules) {
  const int indexed = shapes.table.Find(shapes.dimension);
  const AxisList shared =
      ListOf(SetOf(rules.table.dims[indexed]) & rules.indices.Sharded());
  std::vector<AxisList> separate;
  if (shared.size() > kMaxSeparateAxes) {
    separate.push_back(shared);
  } else {
    for (int axis : shared) separate.push_back({axis});
  }
  std::vector<LookupLayouts> possible = {rules};
  for (const AxisList& axes : separate) {
    std::vector<LookupLayouts> next;
    for (const LookupLayouts& layouts : possible) {
      LookupLayouts by_table = layouts;
      RemoveFromIndices(shapes, SetOf(axes), by_table);
      next.push_back(by_table);

      LookupLayouts by_indices = layouts;
      AxisList& rest = by_indices.table.dims[indexed];
      rest = Without(rest, SetOf(axes));
      next.push_back(by_indices);

      for (int i = 0; i < shapes.table.rank(); ++i) {
        if (i == indexed || shapes.indices.Contains(shapes.table[i].name)) {
          continue;
        }
        LookupLayouts moved = by_table;
        moved.table.dims[indexed] = rest;
        moved.table.dims[i].Append(axes);
        moved.rows.dims[shapes.rows.Find(shapes.table[i].name)].Append(axes);
        next.push_back(moved);
      }
    }
    possible = std::move(next);
  }
  return possible;
}

}  // namespace mtf
