// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/spare_grains.h"

#include <algorithm>

namespace mtf {

SpareGrains::SpareGrains(const Program& program) {
  for (const ProgramValue& value : program.values) {
    Add(program.grains, value.shape);
  }
  for (const Instruction& instruction : program.instructions) {
    if (const auto* reduce = instruction.Find<ReduceAttributes>()) {
      Add(program.grains, reduce->iteration);
    }
  }
}

void SpareGrains::Add(const Grains& grains, const Shape& shape) {
  for (const Dimension& dim : shape) {
    const auto [index, inserted] = classes_.try_emplace(dim.name, 0);
    size_t& known = index->second;
    if (inserted) {
      while (known < sizes_.size() &&
             !grains.Tied(sizes_[known].first, dim.name)) {
        ++known;
      }
      if (known == sizes_.size()) sizes_.push_back({dim.name, {}});
    }
    std::vector<int64_t>& sizes = sizes_[known].second;
    if (std::find(sizes.begin(), sizes.end(), dim.size) == sizes.end()) {
      sizes.push_back(dim.size);
    }
  }
}

bool SpareGrains::Allows(const Grains& grains, const Shape& before,
                         const TensorLayout& before_layout, const Shape& after,
                         const TensorLayout& after_layout) const {
  const std::pair<const Shape*, const TensorLayout*> sides[] = {
      {&before, &before_layout}, {&after, &after_layout}};
  // The axes over which tied names are to be sharded.
  const auto axes_of = [&](const std::string& name) {
    AxisSet axes = grains.AxesOf(name);
    for (const auto& [shape, layout] : sides) {
      for (int i = 0; i < shape->rank(); ++i) {
        if (grains.Tied((*shape)[i].name, name)) axes |= SetOf(layout->dims[i]);
      }
    }
    return axes;
  };
  for (const auto& [shape, layout] : sides) {
    for (int i = 0; i < shape->rank(); ++i) {
      const std::string& name = (*shape)[i].name;
      if ((SetOf(layout->dims[i]) & ~grains.AxesOf(name)) == 0) continue;
      const int64_t grain = grains.mesh().SizeOf(axes_of(name));
      for (int64_t size : sizes_[classes_.at(name)].second) {
        if (grains.ExtentOf(name, size) % grain != 0) return false;
      }
    }
  }
  return true;
}

void AllowLayout(const Shape& shape, const TensorLayout& layout,
                 Grains& grains) {
  for (int i = 0; i < shape.rank(); ++i) {
    grains.Allow(shape[i].name, SetOf(layout.dims[i]));
  }
}

}  // namespace mtf
