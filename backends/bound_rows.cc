// SPDX-License-Identifier: Apache-2.0
#include "backends/bound_rows.h"

namespace mtf {

RingRows RowsOfAttention(const Binding& binding, const BoundValue& value,
                         const std::string& dimension) {
  const auto& attention = binding.instruction().Get<AttentionAttributes>();
  if (attention.ring) {
    return FindRingRows(*binding.program, *value.value, dimension, attention,
                        binding.rank);
  }
  const ShardedDimension& rows = value.dims[value.value->shape.Find(dimension)];
  return {rows.valid, rows.offset, 1};
}

}  // namespace mtf
