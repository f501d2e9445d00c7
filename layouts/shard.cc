// SPDX-License-Identifier: Apache-2.0
#include "layouts/shard.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/container/inlined_vector.h"
#include "mtf/check.h"

namespace mtf {
namespace {

int64_t Product(int64_t a, int64_t b) {
  int64_t product;
  // Padding can make a legal shape exceed the address space. Callers compare
  // the result with limits, so saturating is enough.
  if (__builtin_mul_overflow(a, b, &product)) {
    return std::numeric_limits<int64_t>::max();
  }
  return product;
}

// Calls copy(global_offset, shard_offset, count) for each run of elements that
// is contiguous in the global tensor and in the shard. Offsets and counts are
// in elements.
template <class Copy>
void ForEachRun(const Grains& grains, const Shape& shape,
                const TensorLayout& layout, int64_t rank, Copy copy) {
  const std::vector<ShardedDimension> shard =
      ShardOf(grains, shape, layout, rank);
  for (const ShardedDimension& dim : shard) {
    if (dim.valid == 0) return;
  }
  // The dimensions from `inner` on form one run: all of them but the first are
  // neither sharded nor padded.
  int inner = shape.rank();
  int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= shard[inner].valid;
    if (shard[inner].valid != shape[inner].size ||
        shard[inner].extent != shape[inner].size) {
      break;
    }
  }
  absl::InlinedVector<int64_t, 8> global_stride(shape.rank(), 1);
  absl::InlinedVector<int64_t, 8> shard_stride(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    global_stride[i] = global_stride[i + 1] * shape[i + 1].size;
    shard_stride[i] = shard_stride[i + 1] * shard[i + 1].extent;
  }
  int64_t global_offset = 0;
  int64_t shard_offset = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    global_offset += shard[i].offset * global_stride[i];
  }
  absl::InlinedVector<int64_t, 8> index(inner, 0);
  while (true) {
    copy(global_offset, shard_offset, run);
    int i = inner - 1;
    for (; i >= 0; --i) {
      global_offset += global_stride[i];
      shard_offset += shard_stride[i];
      if (++index[i] < shard[i].valid) break;
      global_offset -= index[i] * global_stride[i];
      shard_offset -= index[i] * shard_stride[i];
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

}  // namespace

std::vector<ShardedDimension> ShardOf(const Grains& grains, const Shape& shape,
                                      const TensorLayout& layout,
                                      int64_t rank) {
  std::vector<ShardedDimension> shard(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t extent = LocalExtent(grains, shape, layout, i);
    const int64_t begin =
        grains.mesh().Coordinate(rank, layout.dims[i]) * extent;
    const int64_t offset = std::min(begin, shape[i].size);
    shard[i] = {extent, offset,
                std::min(begin + extent, shape[i].size) - offset};
  }
  return shard;
}

int64_t LocalExtent(const Grains& grains, const Shape& shape,
                    const TensorLayout& layout, int dim) {
  const int64_t extent = grains.ExtentOf(shape[dim]);
  const int64_t shards = grains.mesh().SizeOf(layout.dims[dim]);
  MTF_CHECK_EQ(extent % shards, 0)
      << "extent " << extent << " of \"" << shape[dim].name
      << "\" is not a multiple of " << shards
      << " shards: Grains::Allow was not called for "
      << grains.mesh().AxisNames(layout.dims[dim]);
  return extent / shards;
}

int64_t LocalElements(const Grains& grains, const Shape& shape,
                      const TensorLayout& layout) {
  int64_t elements = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    elements = Product(elements, LocalExtent(grains, shape, layout, i));
  }
  return elements;
}

void ScatterShard(const Grains& grains, const Shape& shape,
                  const TensorLayout& layout, int64_t rank, int element_size,
                  const void* global, void* shard) {
  const char* from = static_cast<const char*>(global);
  char* to = static_cast<char*>(shard);
  const int64_t elements = LocalElements(grains, shape, layout);
  if (elements == 0) return;
  std::memset(to, 0, elements * element_size);
  ForEachRun(grains, shape, layout, rank,
             [&](int64_t global_offset, int64_t shard_offset, int64_t count) {
               std::memcpy(to + shard_offset * element_size,
                           from + global_offset * element_size,
                           count * element_size);
             });
}

void GatherShard(const Grains& grains, const Shape& shape,
                 const TensorLayout& layout, int64_t rank, int element_size,
                 const void* shard, void* global) {
  const char* from = static_cast<const char*>(shard);
  char* to = static_cast<char*>(global);
  ForEachRun(grains, shape, layout, rank,
             [&](int64_t global_offset, int64_t shard_offset, int64_t count) {
               std::memcpy(to + global_offset * element_size,
                           from + shard_offset * element_size,
                           count * element_size);
             });
}

}  // namespace mtf
