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

struct MeshAndRules {
  const char* mesh;
  const char* layout;
};

class SessionOnMeshes : public ::testing::TestWithParam<MeshAndRules> {
 protected:
  absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph) {
    return Session::Create(graph, GetParam().mesh, GetParam().layout);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Meshes, SessionOnMeshes,
    ::testing::Values(MeshAndRules{"", ""},
                      MeshAndRules{"data:2", "batch:data"},
                      MeshAndRules{"data:3", "batch:data"},
                      MeshAndRules{"a:2,b:2", "batch:a, io:b"},
                      MeshAndRules{"a:2,b:3", "batch:b+a"},
                      MeshAndRules{"data:8", "batch:data"}),
    [](const ::testing::TestParamInfo<MeshAndRules>& info) {
      std::string name = "mesh_";
      name += info.param.mesh;
      for (char& c : name) {
        if (!isalnum(static_cast<unsigned char>(c))) c = '_';
      }
      return name;
    });

TEST_P(SessionOnMeshes, FetchesAreGlobalAndInTheRequestedOrder) {
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
  for (int i = 0; i < 15; ++i) EXPECT_EQ(*(*values)[1].At(i), 2 * i);
  EXPECT_TRUE((*values)[2] == (*values)[0]);
}

TEST_P(SessionOnMeshes, UpdatesPersistAndAdvanceTheStep) {
  Graph graph;
  const Counting program(graph);
  auto session = Create(graph);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ((*session)->step(), step);
    // Fetches have the values before the step.
    const auto values = (*session)->Run({.feeds = {{"x", Ascending()}},
                                         .fetches = {program.counter},
                                         .updates = {program.update}});
    ASSERT_OK(values);
    EXPECT_EQ(*(*values)[0].At(0), step);
  }
  EXPECT_THAT((*session)->ReadVariable("rows")->ToDoubles(),
              ElementsAre(9, 36, 63, 90, 117));
  EXPECT_EQ(*(*session)->ReadVariable("counter")->At(0), 3);
  // Reading does not advance the step; Initialize starts a new run.
  EXPECT_EQ((*session)->step(), 3);
  ASSERT_OK((*session)->Initialize());
  EXPECT_EQ((*session)->step(), 0);
  EXPECT_EQ(*(*session)->ReadVariable("counter")->At(0), 0);
}

TEST_P(SessionOnMeshes, ShardsTogetherAreTheGlobalTensor) {
  Graph graph;
  const Counting program(graph);
  auto session = Create(graph);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  const RunRequest request = {.feeds = {{"x", Ascending()}},
                              .fetches = {program.y, program.sum}};
  const auto global = (*session)->Run(request);
  const auto shards = (*session)->RunShards(request);
  ASSERT_OK(global);
  ASSERT_OK(shards);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ((*shards)[i].size(), (*session)->mesh().num_devices());
    HostTensor together((*global)[i].shape(), kFloat32);
    for (const TensorShard& shard : (*shards)[i]) {
      ASSERT_EQ(shard.dims.size(), together.shape().dims().size());
      for (size_t k = 0; k < shard.dims.size(); ++k) {
        ASSERT_EQ(shard.values.shape()[k].size, shard.dims[k].valid);
      }
      CopyShard(shard, together);
    }
    EXPECT_TRUE(together == (*global)[i]);
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
      StoreElement(shard.values.data(), kFloat32, i, *x.At(row * 3 + column));
    }
  }
  request.feed_shards["x"] = *shards;
  const auto values = (*session)->Run(request);
  ASSERT_OK(values);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(*(*values)[0].At(i), 2 * i);

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

TEST_P(SessionOnMeshes, CountsEqualThePlan) {
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
  EXPECT_EQ(*(*session)->ReadVariable("table")->At(0), 0);
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

TEST(Session, TheSeedDeterminesRandomNumbers) {
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

// Resident memory of this process.
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

TEST(SessionPrograms, AreEvictedAfterManyOthersHaveRun) {
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
    ASSERT_EQ(*(*values)[0].At(wide.size - 1), i + 1);
    // A program used in between gives the same results, evicted or not.
    ASSERT_OK((*session)->Run({.updates = {update}}));
  }
  // Each program holds at least 8 megabytes. Allow for sanitizers, which keep
  // freed memory.
  EXPECT_LT(ResidentMegabytes() - megabytes, kMany / 2 * 8 * 3 / 4);
  // An evicted program runs again; variables are unchanged.
  const auto again =
      (*session)->Run({.feeds = {{"x", ones}}, .fetches = {products[0]}});
  ASSERT_OK(again);
  EXPECT_EQ(*(*again)[0].At(7), 1);
  EXPECT_EQ((*session)->step(), kMany);
  EXPECT_EQ(*(*session)->ReadVariable("counter")->At(0), kMany);
}

// Recently used programs are kept.
TEST(SessionPrograms, RecentlyUsedOnesAreKept) {
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
