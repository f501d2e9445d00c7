// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_SHARD_H_
#define LAYOUTS_SHARD_H_

#include <cstdint>
#include <vector>

#include "layouts/mesh.h"
#include "layouts/tensor_layout.h"
#include "mtf/shape.h"

namespace mtf {

// The part of one dimension that a rank holds: `extent` places in memory, of
// which the first `valid` are elements [offset, offset + valid) of the whole;
// the rest is padding. A late shard may hold no element at all.
struct ShardedDimension {
  int64_t extent = 0;
  int64_t offset = 0;
  int64_t valid = 0;
  friend bool operator==(const ShardedDimension&,
                         const ShardedDimension&) = default;
};

// What `rank` holds of a value of global `shape` under `layout`, a dimension
// each, in the order of `shape`.
std::vector<ShardedDimension> ShardOf(const Grains& grains, const Shape& shape,
                                      const TensorLayout& layout, int64_t rank);

// Places in memory of any rank's shard along dimension `dim`: the same on all.
int64_t LocalExtent(const Grains& grains, const Shape& shape,
                    const TensorLayout& layout, int dim);
int64_t LocalElements(const Grains& grains, const Shape& shape,
                      const TensorLayout& layout);

// Copies between a whole row-major tensor on the host and the padded shard of
// `rank`; `element_size` in bytes. Scatter fills padding with zero bytes.
void ScatterShard(const Grains& grains, const Shape& shape,
                  const TensorLayout& layout, int64_t rank, int element_size,
                  const void* whole, void* shard);
void GatherShard(const Grains& grains, const Shape& shape,
                 const TensorLayout& layout, int64_t rank, int element_size,
                 const void* shard, void* whole);

}  // namespace mtf

#endif  // LAYOUTS_SHARD_H_
