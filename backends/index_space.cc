// SPDX-License-Identifier: Apache-2.0
#include "backends/index_space.h"

#include <algorithm>
#include <utility>

namespace mtf {

std::vector<SpaceDimension> SpaceOf(const BoundValue& value) {
  return SpaceOf(value, value.value->shape.rank());
}

std::vector<SpaceDimension> SpaceOf(const BoundValue& value, int rank) {
  std::vector<SpaceDimension> space;
  for (int i = 0; i < rank; ++i) {
    space.push_back({value.value->shape[i].name, value.dims[i].extent,
                     value.dims[i].offset});
  }
  return space;
}

std::vector<SpaceDimension> IterationOf(const Binding& reduce) {
  std::vector<SpaceDimension> space;
  const Shape& iteration =
      reduce.instruction().Get<ReduceAttributes>().iteration;
  for (int i = 0; i < iteration.rank(); ++i) {
    space.push_back({iteration[i].name, reduce.iteration[i].extent,
                     reduce.iteration[i].offset});
  }
  return space;
}

std::vector<SpaceDimension> UnionOf(
    std::initializer_list<const BoundValue*> values) {
  std::vector<SpaceDimension> space;
  for (const BoundValue* value : values) {
    for (SpaceDimension& dim : SpaceOf(*value)) {
      const bool known = std::any_of(
          space.begin(), space.end(),
          [&](const SpaceDimension& other) { return other.name == dim.name; });
      if (!known) space.push_back(std::move(dim));
    }
  }
  return space;
}

MemoryOrder OrderByMemory(absl::Span<const BoundValue> operands,
                          absl::Span<const SpaceDimension> space,
                          const Shape& kept) {
  const BoundValue* lead = nullptr;
  for (const BoundValue& operand : operands) {
    if (lead == nullptr || operand.elements() > lead->elements()) {
      lead = &operand;
    }
  }
  const auto index_of = [&](const SpaceDimension& dim) {
    return lead == nullptr ? -1 : lead->value->shape.Find(dim.name);
  };
  MemoryOrder order = {{space.begin(), space.end()}, space.size()};
  std::stable_sort(order.space.begin(), order.space.end(),
                   [&](const SpaceDimension& a, const SpaceDimension& b) {
                     return index_of(a) < index_of(b);
                   });
  while (order.first_inner > 0) {
    const SpaceDimension& dim = order.space[order.first_inner - 1];
    if (!kept.Contains(dim.name) && dim.extent != 1) break;
    --order.first_inner;
  }
  return order;
}

}  // namespace mtf
