// SPDX-License-Identifier: Apache-2.0
#ifndef BACKENDS_CONSTANT_SHARD_H_
#define BACKENDS_CONSTANT_SHARD_H_

#include <cstddef>
#include <vector>

#include "backends/backend.h"

namespace mtf {

// The elements of a constant that this rank holds, in the dtype of the result;
// zeros in the padding.
std::vector<std::byte> ConstantShard(const Binding& constant);

}  // namespace mtf

#endif  // BACKENDS_CONSTANT_SHARD_H_
