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

// The shard of a tensor on one rank.
struct TensorShard {
  int64_t rank = 0;
  // The range of the shard in each dimension of the global tensor.
  std::vector<ShardedDimension> dims;
  // The elements without padding; the last shards of a dimension may be empty.
  HostTensor values;
};

// Copies the elements of `shard` to their range in `global`.
void CopyShard(const TensorShard& shard, HostTensor& global);

// The shard of `value` on `rank`, filled with zeros.
TensorShard ZeroShard(const Program& program, const ProgramValue& value,
                      int64_t rank);

// The value of the program's input `name`; kNotFound, with the nearest name, if
// there is none.
absl::StatusOr<const ProgramValue*> FindInput(const Program& program,
                                              absl::string_view name);

// The value of the program's output `name`, which must exist.
const ProgramValue& OutputValue(const Program& program, absl::string_view name);

// Adds to `feeds` a global tensor for each entry of `feed_shards` that is an
// input of the program. Only the shard of `rank` is filled in, since its
// executor reads no other.
// kInvalidArgument if that shard is missing or does not match the layout.
absl::Status AddFeedShards(
    const Program& program, int64_t rank,
    const std::map<std::string, std::vector<TensorShard>>& feed_shards,
    std::map<std::string, HostTensor>& feeds);

// The error of a call that created `value`, if any, as an error of `what`
// called `name`.
absl::Status CheckValue(absl::string_view what, absl::string_view name,
                        const HostTensor& value);

// The kNotFound error for a `name` that is not in `names`: "no input is called
// ...".
absl::Status NoSuchName(absl::string_view what, absl::string_view name,
                        const std::vector<std::string>& names);

}  // namespace mtf::train

#endif  // TRAIN_SESSION_TENSOR_SHARD_H_
