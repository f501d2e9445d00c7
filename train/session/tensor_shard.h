// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_TENSOR_SHARD_H_
#define TRAIN_SESSION_TENSOR_SHARD_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/shard.h"
#include "lowering/program/program.h"
#include "mtf/host_tensor.h"

namespace mtf::train {

// The part of a tensor that one rank holds.
struct TensorShard {
  int64_t rank = 0;
  // Where it lies in the whole, a dimension each.
  std::vector<ShardedDimension> dims;
  // Its elements, without padding; a late shard may have none.
  HostTensor values;
};

// Copies the elements of `shard` to their place in `whole`.
void PlaceShard(const TensorShard& shard, HostTensor& whole);

// Zeros in the place and shape of the shard of `value` that `rank` holds.
TensorShard ZeroShard(const Program& program, const ProgramValue& value,
                      int64_t rank);

// The value that the program reads from its input `name`; kNotFound with the
// nearest name.
absl::StatusOr<const ProgramValue*> FindInput(const Program& program,
                                              absl::string_view name);

// The value that the program hands out under `name`, which it does.
const ProgramValue& OutputValue(const Program& program, absl::string_view name);

// Adds to `feeds` a whole tensor for each entry of `feed_shards`, correct only
// in the shard of `rank`, which is all that its executor reads.
// kInvalidArgument where that shard is missing or not as the layout cuts it.
absl::Status AddFeedShards(
    const Program& program, int64_t rank,
    const std::map<std::string, std::vector<TensorShard>>& feed_shards,
    std::map<std::string, HostTensor>& feeds);

// kNotFound for a `name` that is not among `names`: "no input is called ...".
absl::Status NoSuchName(absl::string_view what, absl::string_view name,
                        const std::vector<std::string>& names);

}  // namespace mtf::train

#endif  // TRAIN_SESSION_TENSOR_SHARD_H_
