// SPDX-License-Identifier: Apache-2.0
#ifndef LAYOUTS_SHARD_H_
#define LAYOUTS_SHARD_H_

#include <cstdint>
#include <vector>

#include "layouts/mesh.h"
#include "layouts/tensor_layout.h"
#include "mtf/shape.h"

namespace mtf {

// The shard of one dimension on one rank: `extent` elements in memory, of which
// the first `valid` are elements [offset, offset + valid) of the dimension and
// the others are padding. The last shards may have no valid element.
struct ShardedDimension {
  int64_t extent = 0;
  int64_t offset = 0;
  int64_t valid = 0;
  friend bool operator==(const ShardedDimension&,
                         const ShardedDimension&) = default;
};

// The shard of `rank` of a value of global `shape` under `layout`, by dimension
// of `shape`.
std::vector<ShardedDimension> ShardOf(const Grains& grains, const Shape& shape,
                                      const TensorLayout& layout, int64_t rank);

// The extent of a shard along dimension `dim`, and the number of elements of a
// shard, padding included. They are the same on all ranks.
int64_t LocalExtent(const Grains& grains, const Shape& shape,
                    const TensorLayout& layout, int dim);
int64_t LocalElements(const Grains& grains, const Shape& shape,
                      const TensorLayout& layout);

// Copy between a global row-major tensor in host memory and the padded shard of
// `rank`. `element_size` is in bytes. ScatterShard sets the padding to zero.
void ScatterShard(const Grains& grains, const Shape& shape,
                  const TensorLayout& layout, int64_t rank, int element_size,
                  const void* global, void* shard);
void GatherShard(const Grains& grains, const Shape& shape,
                 const TensorLayout& layout, int64_t rank, int element_size,
                 const void* shard, void* global);

}  // namespace mtf

#endif  // LAYOUTS_SHARD_H_
