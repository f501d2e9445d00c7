// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_PROGRAM_SPARE_GRAINS_H_
#define LOWERING_PROGRAM_SPARE_GRAINS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "layouts/tensor_layout.h"
#include "lowering/program/program.h"
#include "mtf/shape.h"

namespace mtf {

// Decides over which mesh axes dimensions may be sharded although no rule does
// so: where the padded extent of every value of the program stays the same.
class SpareGrains {
 public:
  explicit SpareGrains(const Program& program);

  // Takes the dimensions of another value into account.
  void Add(const Grains& grains, const Shape& shape);

  // Whether two values can have these layouts.
  bool Allows(const Grains& grains, const Shape& before,
              const TensorLayout& before_layout, const Shape& after,
              const TensorLayout& after_layout) const;

 private:
  // By name: index in sizes_. Tied names share one.
  absl::flat_hash_map<std::string, size_t> classes_;
  // A name, and the sizes of the dimensions of all names tied to it.
  std::vector<std::pair<std::string, std::vector<int64_t>>> sizes_;
};

// Allows `grains` to shard `shape` as `layout` does.
void AllowLayout(const Shape& shape, const TensorLayout& layout,
                 Grains& grains);

}  // namespace mtf

#endif  // LOWERING_PROGRAM_SPARE_GRAINS_H_
