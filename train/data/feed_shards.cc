// SPDX-License-Identifier: Apache-2.0
#include "train/data/feed_shards.h"

#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/errors.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

using RowRange = std::pair<int64_t, int64_t>;

RowRange RowsOf(const TensorShard& shard) {
  return {shard.dims[0].offset, shard.dims[0].offset + shard.dims[0].valid};
}

// Copies from `rows`, a global tensor but for its first dimension, which is the
// rows of `shard`.
void CopyRows(const HostTensor& rows, TensorShard& shard) {
  const std::vector<ShardedDimension>& dims = shard.dims;
  const int rank = rows.shape().rank();
  const int64_t size = DTypeSize(rows.dtype());
  const int64_t elements = shard.values.num_elements();
  // A run along the last dimension is contiguous in both tensors.
  const int64_t run = dims[rank - 1].valid;
  for (int64_t begin = 0; begin < elements; begin += run) {
    int64_t rest = begin, stride = 1, source = 0;
    for (int i = rank - 1; i >= 0; --i) {
      const int64_t offset = i == 0 ? 0 : dims[i].offset;
      source += (rest % dims[i].valid + offset) * stride;
      rest /= dims[i].valid;
      stride *= rows.shape()[i].size;
    }
    std::memcpy(static_cast<char*>(shard.values.data()) + begin * size,
                static_cast<const char*>(rows.data()) + source * size,
                run * size);
  }
}

// The Input of a graph holds what `batches` feeds to it.
absl::Status CheckFeedShape(const FeedInfo& feed, const ProgramValue& input) {
  if (input.shape == feed.shape && input.dtype == feed.dtype) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the data feeds ", DescribeTensor(feed.dtype, feed.shape), " to ",
      Quoted(feed.name), ", but the input is ",
      DescribeTensor(input.dtype, input.shape),
      DetailLine("help", "give the data the dimensions of the input")));
}

}  // namespace

absl::StatusOr<FeedShards> EmptyFeedShards(Session& session,
                                           const RunRequest& request,
                                           const BatchSource& batches) {
  MTF_ASSIGN_OR_RETURN(const Program* program, session.ProgramOf(request));
  FeedShards empty;
  for (const FeedInfo& feed : batches.feeds()) {
    MTF_ASSIGN_OR_RETURN(const ProgramValue* input,
                         FindInput(*program, feed.name));
    MTF_RETURN_IF_ERROR(CheckFeedShape(feed, *input));
    MTF_ASSIGN_OR_RETURN(empty[feed.name],
                         session.InputShards(request, feed.name));
  }
  return empty;
}

absl::StatusOr<FeedShards> ReadFeedShards(const BatchSource& batches,
                                          int64_t step,
                                          const FeedShards& empty) {
  std::set<RowRange> ranges;
  for (const auto& [name, shards] : empty) {
    for (const TensorShard& shard : shards) ranges.insert(RowsOf(shard));
  }
  FeedShards filled = empty;
  for (const RowRange& range : ranges) {
    if (range.first == range.second) continue;  // a rank of padding only
    MTF_ASSIGN_OR_RETURN(const auto rows,
                         batches.Rows(step, range.first, range.second));
    for (auto& [name, shards] : filled) {
      const auto feed = rows.find(name);
      if (feed == rows.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the data has no feed called ", Quoted(name),
                         DetailLine("help",
                                    "take the shards of "
                                    "EmptyFeedShards of this data")));
      }
      for (TensorShard& shard : shards) {
        if (RowsOf(shard) == range) CopyRows(feed->second, shard);
      }
    }
  }
  return filled;
}

}  // namespace mtf::train
