// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_BLOCK_LINES_H_
#define BACKENDS_BLOCK_LINES_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "backends/backend.h"
#include "mtf/check.h"

namespace mtf {

// The memory layout of a value relative to the dimension that a scan, a
// reduce_blocks or a top_k runs along: [outer][extent][inner], that is
// outer x inner lines of `extent` elements. Block b of a line is
// [b * block, (b + 1) * block), clipped to the `valid` elements.
struct BlockLines {
  int64_t outer = 1, extent = 0, inner = 1;
  int64_t valid = 0;
  int64_t offset = 0;  // of the first element in the global dimension
  int64_t blocks = 1, block = 0;

  int64_t lines() const { return outer * inner; }
  int64_t begin(int64_t b) const { return std::min(b * block, valid); }
  int64_t end(int64_t b) const { return std::min((b + 1) * block, valid); }
};

// The lines of `value` along `dimension`, with one block for each element that
// `totals` has along it; one block if `totals` is null.
inline BlockLines LinesOf(const BoundValue& value, const std::string& dimension,
                          const BoundValue* totals) {
  const int dim = value.value->shape.Find(dimension);
  MTF_CHECK_LE(0, dim) << dimension;
  BlockLines lines;
  for (int i = 0; i < dim; ++i) lines.outer *= value.dims[i].extent;
  lines.extent = value.dims[dim].extent;
  lines.inner = value.stride(dim);
  lines.valid = value.dims[dim].valid;
  lines.offset = value.dims[dim].offset;
  if (totals != nullptr) {
    lines.blocks = totals->dims[totals->value->shape.Find(dimension)].extent;
  }
  lines.block = lines.blocks == 0 ? 0 : lines.extent / lines.blocks;
  return lines;
}

// The lines that a top_k ranks: in blocks if its results have the dimension.
inline BlockLines RankedLines(const Binding& binding) {
  const std::string& dimension = DimensionOf(binding.instruction());
  const BoundValue& indices = binding.results.back();
  const bool in_blocks = indices.value->shape.Contains(dimension);
  return LinesOf(binding.operands[0], dimension,
                 in_blocks ? &indices : nullptr);
}

}  // namespace mtf

#endif  // BACKENDS_BLOCK_LINES_H_
