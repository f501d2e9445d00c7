// SPDX-License-Identifier: Apache-2.0
#include "train/session/session.h"

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/program/count_costs.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/input.h"
#include "ops/random.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/requirements.h"
#include "tests/train/session/counting.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

struct Place {
  const char* mesh;
  const char* layout;
};

class SessionOnMeshes : public ::testing::TestWithParam<Place> {
 protected:
  absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph) {
    return Session::Create(graph, GetParam().mesh, GetParam().layout);
  }
};

INSTANTIATE_TEST_SUITE_P(Meshes, SessionOnMeshes,
                         ::testing::Values(Place{"", ""},
                                           Place{"data:2", "batch:data"},
                                           Place{"data:3", "batch:data"},
                                           Place{"a:2,b:2", "batch:a, io:b"},
                                           Place{"a:2,b:3", "batch:b+a"},
                                           Place{"data:8", "batch:data"}),
                         [](const ::testing::TestParamInfo<Place>& info) {
                           std::string name = "mesh_";
                           name += info.param.mesh;
                           for (char& c : name) {
                             if (!isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           }
                           return name;
                         });

TEST_P(SessionOnMeshes, FetchesAreWholeAndInTheOrderAskedFor) {
  Graph graph;
  const Counting program(graph);
  auto session = Create(graph);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const auto values =
      (*session)->Run({.feeds = {{"x", Ascending()}},
                       .fetches = {program.sum, program.y, program.sum}});
  ASSERT_OK(values);
  ASSERT_EQ(values->size(), 3u);
  EXPECT_THAT((*values)[0].ToDoubles(), ElementsAre(3, 12, 21, 30, 39));
  EXPECT_EQ((*values)[1].shape(), (Shape{kBatch, kIo}));
  for (int i = 0; i < 15; ++i) EXPECT_EQ((*values)[1].At(i), 2 * i);
  EXPECT_TRUE((*values)[2] == (*values)[0]);
}

TEST_P(SessionOnMeshes, UpdatesStayAndAdvanceTheStep) {
  Graph graph;
  const Counting program(graph);
  auto session = Create(graph);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ((*session)->step(), step);
    // What is fetched is what was there when the step began.
    const auto values = (*session)->Run({.feeds = {{"x", Ascending()}},
                                         .fetches = {program.counter},
                                         .updates = {program.update}});
    ASSERT_OK(values);
    EXPECT_EQ((*values)[0].At(0), step);
  }
  EXPECT_THAT((*session)->ReadVariable("rows")->ToDoubles(),
              ElementsAre(9, 36, 63, 90, 117));
  EXPECT_EQ((*session)->ReadVariable("counter")->At(0), 3);
  // Reading is no step; starting again is a fresh run.
  EXPECT_EQ((*session)->step(), 3);
  ASSERT_OK((*session)->Initialize());
  EXPECT_EQ((*session)->step(), 0);
  EXPECT_EQ((*session)->ReadVariable("counter")->At(0), 0);
}

TEST_P(SessionOnMeshes, ShardsPutTogetherAreTheWhole) {
  Graph graph;
  const Counting program(graph);
  auto session = Create(graph);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const RunRequest request = {.feeds = {{"x", Ascending()}},
                              .fetches = {program.y, program.sum}};
  const auto whole = (*session)->Run(request);
  const auto shards = (*session)->RunShards(request);
  ASSERT_OK(whole);
  ASSERT_OK(shards);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ((*shards)[i].size(), (*session)->mesh().num_devices());
    HostTensor together((*whole)[i].shape(), kFloat32);
    for (const TensorShard& shard : (*shards)[i]) {
      ASSERT_EQ(shard.dims.size(), together.shape().dims().size());
      for (size_t k = 0; k < shard.dims.size(); ++k) {
        ASSERT_EQ(shard.values.shape()[k].size, shard.dims[k].valid);
      }
      CopyShard(shard, together);
    }
    EXPECT_TRUE(together == (*whole)[i]);
  }
}

TEST_P(SessionOnMeshes, ShardsCanBeFed) {
  Graph graph;
  const Counting program(graph);
  auto session = Create(graph);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  RunRequest request = {.fetches = {program.y}};
  auto shards = (*session)->InputShards(request, "x");
  ASSERT_OK(shards);
  const HostTensor x = Ascending();
  for (TensorShard& shard : *shards) {
    const int64_t columns = shard.dims[1].valid;
    for (int64_t i = 0; i < shard.values.num_elements(); ++i) {
      const int64_t row = shard.dims[0].offset + i / columns;
      const int64_t column = shard.dims[1].offset + i % columns;
      StoreElement(shard.values.data(), kFloat32, i, x.At(row * 3 + column));
    }
  }
  request.feed_shards["x"] = *shards;
  const auto values = (*session)->Run(request);
  ASSERT_OK(values);
  for (int i = 0; i < 15; ++i) EXPECT_EQ((*values)[0].At(i), 2 * i);

  // A shard of another rank or with another offset is an error.
  request.feed_shards["x"][0].dims[0].offset += 1;
  EXPECT_THAT((*session)->Run(request),
              StatusIs(kInvalid, HasSubstr("the feed of \"x\" has no shard "
                                           "of rank 0")));
  // So is an input that is fed in both ways.
  request.feed_shards["x"] = *shards;
  request.feeds["x"] = x;
  EXPECT_THAT((*session)->Run(request),
              StatusIs(kInvalid, HasSubstr("in both feeds and feed_shards")));
}

TEST_P(SessionOnMeshes, CountsAreThoseOfThePlan) {
  Graph graph;
  const Counting program(graph);
  auto session = Create(graph);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const RunRequest request = {.feeds = {{"x", Ascending()}},
                              .fetches = {program.sum, program.counter},
                              .updates = {program.update}};
  const auto plan = (*session)->ProgramOf(request);
  ASSERT_OK(plan);
  CollectiveCounts planned;
  for (const auto& [key, count] : CountCollectives(**plan)) {
    planned[key] = {count.first, count.second};
  }
  ASSERT_OK((*session)->Run(request));
  (*session)->ResetCounts();
  EXPECT_TRUE((*session)->counts().empty());
  ASSERT_OK((*session)->Run(request));
  EXPECT_EQ((*session)->counts(), planned);
}

TEST_P(SessionOnMeshes, AnIndexOutOfRangeIsOneErrorAndChangesNothing) {
  Graph graph;
  const Dimension row{"row", 4};
  Tensor indices = Input(graph, "indices", kInt32, {kBatch});
  Tensor table = Variable(graph, "table", Zeros(graph, kFloat32, {row, kIo}));
  Tensor picked = Gather(table, indices, "row");
  Tensor update = Assign(table, table + 1.0);
  auto session = Create(graph);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const RunRequest request = {
      .feeds = {{"indices",
                 HostTensor::Of<int32_t>({kBatch}, {0, 3, 4, 1, -1})}},
      .fetches = {picked},
      .updates = {update}};
  EXPECT_THAT((*session)->Run(request),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr("index 4"), HasSubstr("row"))));
  EXPECT_EQ((*session)->step(), 0);
  EXPECT_EQ((*session)->ReadVariable("table")->At(0), 0);
}

TEST_P(SessionOnMeshes, InitialValuesDoNotDependOnTheMesh) {
  const auto initial = [](const char* mesh, const char* layout) {
    Graph graph;
    Variable(graph, "w", RandomNormal(graph, {kBatch, kIo}, 0, 1));
    auto session = Session::Create(graph, mesh, layout, {.seed = 11});
    EXPECT_OK(session);
    EXPECT_OK((*session)->Initialize());
    return *(*session)->ReadVariable("w");
  };
  EXPECT_TRUE(initial(GetParam().mesh, GetParam().layout) == initial("", ""));
}

TEST(Session, TheSeedDecidesRandomNumbers) {
  const auto draw = [](uint32_t seed) {
    Graph graph;
    Tensor x = RandomUniform(graph, {kBatch}, 0, 1);
    auto session =
        Session::Create(graph, "data:2", "batch:data", {.seed = seed});
    return *(*session)->Run({.fetches = {x}});
  };
  EXPECT_TRUE(draw(1)[0] == draw(1)[0]);
  EXPECT_FALSE(draw(1)[0] == draw(2)[0]);
}

// Of this process, in megabytes.
int64_t ResidentMegabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == "VmRSS:") return kilobytes >> 10;
  }
  return 0;
}

TEST(SessionPrograms, AreDroppedWhenManyOthersHaveRun) {
  SKIP_UNDER_THREAD_SANITIZER("programs kept change no thread");
  constexpr int kMany = 100;
  const Dimension wide{"wide", 1 << 20};
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {wide});
  Tensor counter = Variable(graph, "counter", Zeros(graph, kFloat32, {}));
  Tensor update = Assign(counter, counter + 1.0);
  std::vector<Tensor> products;
  for (int i = 0; i < kMany; ++i) products.push_back(x * (i + 1.0));
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  HostTensor ones({wide}, kFloat32);
  for (int64_t i = 0; i < wide.size; ++i) {
    StoreElement(ones.data(), kFloat32, i, 1);
  }
  int64_t megabytes = 0;
  for (int i = 0; i < kMany; ++i) {
    // The first half fills the session, and the allocator.
    if (i == kMany / 2) megabytes = ResidentMegabytes();
    const auto values =
        (*session)->Run({.feeds = {{"x", ones}}, .fetches = {products[i]}});
    ASSERT_OK(values);
    ASSERT_EQ((*values)[0].At(wide.size - 1), i + 1);
    // One that is used in between stays or not: that is not to be seen.
    ASSERT_OK((*session)->Run({.updates = {update}}));
  }
  // Each of them holds at least 8 megabytes. A part of that for sanitizers,
  // which keep what was freed.
  EXPECT_LT(ResidentMegabytes() - megabytes, kMany / 2 * 8 * 3 / 4);
  // What was dropped runs again; the rest is as it was.
  const auto again =
      (*session)->Run({.feeds = {{"x", ones}}, .fetches = {products[0]}});
  ASSERT_OK(again);
  EXPECT_EQ((*again)[0].At(7), 1);
  EXPECT_EQ((*session)->step(), kMany);
  EXPECT_EQ((*session)->ReadVariable("counter")->At(0), kMany);
}

// What is in use stays, whatever else runs.
TEST(SessionPrograms, ThoseUsedLastStay) {
  SKIP_UNDER_THREAD_SANITIZER("programs kept change no thread");
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, {kBatch, kIo});
  std::vector<Tensor> products;
  for (int i = 0; i < 40; ++i) products.push_back(x * (i + 1.0));
  const RunRequest often = {.fetches = {x * 0.5}};
  auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  const auto program = (*session)->ProgramOf(often);
  ASSERT_OK(program);
  for (size_t i = 0; i < products.size(); ++i) {
    ASSERT_OK((*session)->ProgramOf({.fetches = {products[i]}}));
    const auto same = (*session)->ProgramOf(often);
    ASSERT_OK(same);
    ASSERT_EQ(*same, *program) << i;
  }
}

}  // namespace
}  // namespace mtf::train
