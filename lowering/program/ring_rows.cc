// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/ring_rows.h"

#include <algorithm>

#include "layouts/shard.h"

namespace mtf {
namespace {

int64_t FloorDivide(int64_t x, int64_t y) {
  return x / y - (x % y < 0 ? 1 : 0);
}

}  // namespace

RingRows FindRingRows(const Program& program, const ProgramValue& value,
                      const std::string& dimension,
                      const AttentionAttributes& attention, int64_t rank) {
  const int dim = value.shape.Find(dimension);
  const int64_t size = value.shape[dim].size;
  const int64_t extent =
      LocalExtent(program.grains, value.shape, value.layout, dim);
  const AxisList& axes = value.layout.dims[dim];
  const int64_t ranks = program.mesh.SizeOf(axes);
  int64_t shard = program.mesh.Coordinate(rank, axes);
  if (attention.ring && dimension == attention.spec.memory_length) {
    shard = (shard + ranks - attention.shift) % ranks;
  }
  if (attention.ring && attention.striped) {
    const int64_t valid = size > shard ? (size - shard - 1) / ranks + 1 : 0;
    return {valid, shard, ranks};
  }
  const int64_t first = std::min(shard * extent, size);
  return {std::min(extent, size - first), first, 1};
}

VisibleKeys FindVisibleKeys(const AttentionSpec& spec, int64_t position,
                            const RingRows& keys) {
  const int64_t distance = position - keys.first;
  VisibleKeys visible = {0, keys.valid};
  if (spec.causal) {
    visible.end = std::min(visible.end, FloorDivide(distance, keys.stride) + 1);
  }
  if (spec.window > 0) {
    visible.begin = std::max<int64_t>(
        0, FloorDivide(distance - spec.window, keys.stride) + 1);
  }
  return visible;
}

}  // namespace mtf
