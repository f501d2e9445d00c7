// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_WEIGHTS_SHARD_RANGES_H_
#define TRAIN_WEIGHTS_SHARD_RANGES_H_

#include "train/checkpoint/element_range.h"
#include "train/session/rank_variables.h"

namespace mtf::train {

// The elements of its variable that a shard has, without padding.
inline ElementRanges ValidRanges(const VariableShard& shard) {
  ElementRanges ranges;
  for (const ShardedDimension& dim : shard.dims) {
    ranges.push_back({dim.offset, dim.valid});
  }
  return ranges;
}

}  // namespace mtf::train

#endif  // TRAIN_WEIGHTS_SHARD_RANGES_H_
