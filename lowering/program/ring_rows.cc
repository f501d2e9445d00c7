// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/ring_rows.h"

#include <algorithm>

#include "layouts/shard.h"

namespace mtf {

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

}  // namespace mtf
