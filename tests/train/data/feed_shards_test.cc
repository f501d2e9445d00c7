// SPDX-License-Identifier: Apache-2.0
#include "train/data/feed_shards.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/graph.h"
#include "mtf/philox.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A matrix and a number for each row; remembers which rows were read.
class NumberedRows final : public BatchSource {
 public:
  NumberedRows(int64_t batch, int64_t width) : batch_(batch), width_(width) {}

  std::vector<FeedInfo> feeds() const override {
    return {{"x", {{"batch", batch_}, {"width", width_}}, kInt32},
            {"label", {{"batch", batch_}}, kInt32}};
  }
  int64_t batch_size() const override { return batch_; }
  int64_t batches_per_epoch() const override { return 0; }
  absl::StatusOr<std::map<std::string, HostTensor>> Rows(
      int64_t step, int64_t first, int64_t last) const override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      read_.emplace_back(first, last);
    }
    std::vector<int32_t> x, label;
    for (int64_t row = first; row < last; ++row) {
      label.push_back(static_cast<int32_t>(step * 1000 + row));
      for (int64_t i = 0; i < width_; ++i) {
        x.push_back(static_cast<int32_t>(
            PhiloxAt(0, 0, step, row * width_ + i).word[0] >> 8));
      }
    }
    const Dimension rows = {"batch", last - first};
    return std::map<std::string, HostTensor>{
        {"x", HostTensor::Of<int32_t>({rows, {"width", width_}}, x)},
        {"label", HostTensor::Of<int32_t>({rows}, label)}};
  }

  std::vector<std::pair<int64_t, int64_t>> TakeRead() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(read_, {});
  }

 private:
  const int64_t batch_, width_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<int64_t, int64_t>> read_;
};

struct ShardCase {
  const char* mesh;
  const char* layout;
  int64_t batch, width;
  friend std::ostream& operator<<(std::ostream& out, const ShardCase& c) {
    return out << c.mesh << " " << c.layout << " batch " << c.batch << " width "
               << c.width;
  }
};

class FeedShardsTest : public ::testing::TestWithParam<ShardCase> {};

TEST_P(FeedShardsTest, AStepOnShardsIsThatOnTensors) {
  const auto [mesh, layout, batch, width] = GetParam();
  const NumberedRows batches(batch, width);
  Graph graph;
  const Tensor x =
      Input(graph, "x", kInt32, {{"batch", batch}, {"width", width}});
  const Tensor label = Input(graph, "label", kInt32, {{"batch", batch}});
  RunRequest request = {.fetches = {x + label}};
  auto session = Session::Create(graph, mesh, layout);
  ASSERT_OK(session);
  const auto empty = EmptyFeedShards(**session, request, batches);
  ASSERT_OK(empty);
  for (int64_t step = 0; step < 3; ++step) {
    const RunRequest on_tensors = {.feeds = *batches.Batch(step),
                                   .fetches = request.fetches};
    const auto expected = (*session)->Run(on_tensors);
    ASSERT_OK(expected);
    auto shards = ReadFeedShards(batches, step, *empty);
    ASSERT_OK(shards);
    request.feed_shards = *std::move(shards);
    const auto values = (*session)->Run(request);
    ASSERT_OK(values);
    EXPECT_TRUE((*values)[0] == (*expected)[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, FeedShardsTest,
    ::testing::Values(ShardCase{"data:1", "", 4, 3},
                      ShardCase{"data:2", "batch:data", 4, 3},
                      ShardCase{"data:4", "batch:data", 5, 3},
                      ShardCase{"data:2,model:2", "batch:data, width:model", 5,
                                7},
                      ShardCase{"data:2,model:2", "width:data+model", 3, 9},
                      ShardCase{"data:4", "batch:data", 2, 1}),
    [](const auto& info) { return "case" + std::to_string(info.index); });

TEST(ReadFeedShards, ReadsOnlyTheRowsOfItsRanks) {
  const NumberedRows batches(8, 2);
  Graph graph;
  const Tensor x = Input(graph, "x", kInt32, {{"batch", 8}, {"width", 2}});
  const Tensor label = Input(graph, "label", kInt32, {{"batch", 8}});
  const RunRequest request = {.fetches = {x + label}};
  auto session = Session::Create(graph, "data:4,model:2", "batch:data");
  ASSERT_OK(session);
  FeedShards empty = *EmptyFeedShards(**session, request, batches);
  ASSERT_OK(ReadFeedShards(batches, 0, empty));
  // Eight ranks and two feeds, but each row is read once.
  EXPECT_THAT(batches.TakeRead(),
              ElementsAre(std::pair(0, 2), std::pair(2, 4), std::pair(4, 6),
                          std::pair(6, 8)));
  // As in a process that is rank 5 only.
  for (auto& [name, shards] : empty) {
    shards = {shards[5]};
    ASSERT_EQ(shards[0].rank, 5);
  }
  const auto shards = ReadFeedShards(batches, 7, empty);
  ASSERT_OK(shards);
  EXPECT_THAT(batches.TakeRead(), ElementsAre(std::pair(4, 6)));
  EXPECT_THAT(shards->at("label")[0].values.ToDoubles(),
              ElementsAre(7004, 7005));
}

TEST(EmptyFeedShards, InputsOfAnotherShapeAreErrors) {
  const NumberedRows batches(8, 2);
  Graph graph;
  const Tensor x = Input(graph, "x", kInt32, {{"batch", 8}, {"width", 3}});
  const Tensor label = Input(graph, "label", kInt32, {{"batch", 8}});
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  EXPECT_THAT(EmptyFeedShards(**session, {.fetches = {x + label}}, batches),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the data feeds i32[batch=8, width=2] to "
                                 "\"x\", but the input is "
                                 "i32[batch=8, width=3]")));
  EXPECT_THAT(EmptyFeedShards(**session, {.fetches = {label}}, batches),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"x\"")));
}

}  // namespace
}  // namespace mtf::train
