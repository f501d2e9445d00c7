// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_FEED_SHARDS_H_
#define TRAIN_DATA_FEED_SHARDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/batch_source.h"
#include "train/session/session.h"
#include "train/session/tensor_shard.h"

namespace mtf::train {

// The shards of several feeds by name: RunRequest::feed_shards.
using FeedShards = std::map<std::string, std::vector<TensorShard>>;

// The shards, all zero, of the feeds of `batches` that the ranks of this
// process hold while `session` runs `request`. Errors are those of
// Session::InputShards, and kInvalidArgument if an Input of the graph has
// another shape or dtype than the feed.
absl::StatusOr<FeedShards> EmptyFeedShards(Session& session,
                                           const RunRequest& request,
                                           const BatchSource& batches);

// The batch of a step as shards like `empty`, for which only the rows of the
// ranks of this process are read; rows of several ranks or feeds are read once.
//
//   MTF_ASSIGN_OR_RETURN(const FeedShards empty,
//                        EmptyFeedShards(*session, request, *batches));
//   MTF_ASSIGN_OR_RETURN(request.feed_shards,
//                        ReadFeedShards(*batches, session->step(), empty));
//
// Thread-safe. Errors are those of BatchSource::Rows.
absl::StatusOr<FeedShards> ReadFeedShards(const BatchSource& batches,
                                          int64_t step,
                                          const FeedShards& empty);

}  // namespace mtf::train

#endif  // TRAIN_DATA_FEED_SHARDS_H_
