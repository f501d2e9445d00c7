// SPDX-License-Identifier: Apache-2.0
#include "backends/constant_shard.h"

#include <cstdint>

#include "mtf/host_tensor.h"

namespace mtf {

std::vector<std::byte> ConstantShard(const Binding& constant) {
  const BoundValue& result = constant.results[0];
  const std::vector<double>& data =
      constant.instruction().Get<ConstantAttributes>().elements;
  const int rank = result.value->shape.rank();
  std::vector<std::byte> bytes(result.elements() * DTypeSize(result.dtype()));
  for (int64_t i = 0; i < result.elements(); ++i) {
    int64_t global = 0, stride = 1, rest = i;
    bool valid = true;
    for (int d = rank - 1; d >= 0; --d) {
      const ShardedDimension& dim = result.dims[d];
      const int64_t at = rest % dim.extent;
      rest /= dim.extent;
      valid = valid && at < dim.valid;
      global += (dim.offset + at) * stride;
      stride *= result.value->shape[d].size;
    }
    if (valid) StoreElement(bytes.data(), result.dtype(), i, data[global]);
  }
  return bytes;
}

}  // namespace mtf
