// SPDX-License-Identifier: Apache-2.0
//
// Shards of variables, read and written without a program.
#include "train/session/rank_variables.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mtf/precision_text.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/train/small_lm.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

std::unique_ptr<Session> StartOn(const std::string& device, const Graph& graph,
                                 const std::string& mesh,
                                 const std::string& layout) {
  SessionOptions options;
  options.backend = device;
  options.seed = 3;
  auto session = Session::Create(graph, mesh, layout, options);
  EXPECT_OK(session);
  if (!session.ok()) return nullptr;
  EXPECT_OK((*session)->Initialize());
  return *std::move(session);
}

// The variables, put together from the shards of first replicas. Every element
// must be in exactly one.
std::map<std::string, HostTensor> ByShards(Session& session) {
  std::map<std::string, HostTensor> values;
  std::map<std::string, int64_t> elements;
  for (const VariableInfo& info : session.graph().variables()) {
    values[info.name] = HostTensor(info.shape, info.dtype);
  }
  std::mutex mutex;
  EXPECT_OK(session.OnEachRank([&](RankVariables& rank) -> absl::Status {
    for (const VariableShard& shard : rank.shards()) {
      MTF_ASSIGN_OR_RETURN(const HostTensor value, rank.Read(shard));
      if (!shard.first_replica) continue;
      const std::lock_guard<std::mutex> lock(mutex);
      elements[shard.name] += value.num_elements();
      CopyShard({rank.rank(), shard.dims, value}, values[shard.name]);
    }
    return absl::OkStatus();
  }));
  for (const auto& [name, value] : values) {
    EXPECT_EQ(elements[name], value.num_elements()) << name;
  }
  return values;
}

struct Place {
  const char *device, *mesh, *layout;
};
constexpr Place kPlaces[] = {{"cpu", "", ""},
                             {"cpu", "data:3", "zero3"},
                             {"cpu", "data:2,model:2", "data_model"},
                             {"reference", "model:3", "megatron"},
                             {"cuda_emulated", "data:2,model:2", "data_model"},
                             {"cuda_emulated", "data:3", "zero3"}};

// As ReadVariable, which gathers by a program, for variables of every kind.
TEST(RankVariables, ReadsWhatProgramsRead) {
  for (const Place& place : kPlaces) {
    SCOPED_TRACE(absl::StrCat(place.device, " ", place.mesh));
    Graph graph;
    BuildSmallLm(graph, *ParsePrecision("mixed_bfloat16"));
    StateVariable(graph, "cache", Ones(graph, kFloat32, {{"rows", 7}}));
    const auto session = StartOn(place.device, graph, place.mesh, place.layout);
    ASSERT_NE(session, nullptr);
    for (const auto& [name, value] : ByShards(*session)) {
      const auto read = session->ReadVariable(name);
      ASSERT_OK(read);
      EXPECT_TRUE(*read == value) << name;
    }
    EXPECT_EQ(session->step(), 0);
  }
}

// What was written is what programs compute with; padding does not disturb.
TEST(RankVariables, WritesWhatProgramsRead) {
  for (const Place& place : kPlaces) {
    SCOPED_TRACE(absl::StrCat(place.device, " ", place.mesh));
    Graph graph;
    const Dimension vocab{"vocab", 7}, d_model{"d_model", 5},
        columns{"columns", 3};
    const Shape shape({vocab, d_model, columns});
    const Tensor w = Variable(graph, "w", Ones(graph, kFloat32, shape));
    const Tensor sum = ReduceSum(Exp(w), {});
    const auto session = StartOn(place.device, graph, place.mesh, place.layout);
    ASSERT_NE(session, nullptr);
    HostTensor value(shape, kFloat32);
    auto elements = *value.mutable_values<float>();
    for (size_t i = 0; i < elements.size(); ++i) {
      elements[i] = static_cast<float>(i % 11);
    }
    // To another session, which has the same shards.
    ASSERT_OK(session->WriteVariable("w", value));
    std::vector<std::vector<HostTensor>> shards(16);
    const auto read_all = [&](RankVariables& rank) -> absl::Status {
      for (const VariableShard& shard : rank.shards()) {
        MTF_ASSIGN_OR_RETURN(shards[rank.rank()].emplace_back(),
                             rank.Read(shard));
      }
      return absl::OkStatus();
    };
    ASSERT_OK(session->OnEachRank(read_all));
    const double expected = *(*session->Run({.fetches = {sum}}))[0].At(0);
    const auto other = StartOn(place.device, graph, place.mesh, place.layout);
    ASSERT_NE(other, nullptr);
    ASSERT_OK(other->OnEachRank([&](RankVariables& rank) -> absl::Status {
      int i = 0;
      for (const VariableShard& shard : rank.shards()) {
        MTF_RETURN_IF_ERROR(rank.Write(shard, shards[rank.rank()][i++]));
      }
      return absl::OkStatus();
    }));
    EXPECT_TRUE(*other->ReadVariable("w") == value);
    EXPECT_EQ(*(*other->Run({.fetches = {sum}}))[0].At(0), expected);
  }
}

TEST(RankVariables, SetStepChoosesTheRandomNumbers) {
  Graph graph;
  const SmallLm model = BuildSmallLm(graph);
  const auto session = StartOn("cpu", graph, "", "");
  const TextDataset text = SmallText();
  const auto feeds = *TextFeeds(text, model.tokens, model.targets, 7)(0);
  const auto mask = [&] {
    return (*session->Run({.fetches = {model.mask}}))[0];
  };
  const HostTensor first = mask();
  ASSERT_OK(session->Run({.feeds = feeds, .updates = {model.step}}));
  EXPECT_FALSE(mask() == first);
  ASSERT_OK(session->SetStep(0));
  EXPECT_EQ(session->step(), 0);
  EXPECT_TRUE(mask() == first);
  EXPECT_THAT(session->SetStep(-1), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("step -1 is negative")));
}

TEST(RankVariablesErrors, BeforeInitializeAndOtherValues) {
  Graph graph;
  Variable(graph, "w", Ones(graph, kFloat32, {{"rows", 5}}));
  const auto session = Session::Create(graph, "a:2", "rows:a");
  ASSERT_OK(session);
  const auto write = [&](HostTensor value) {
    return (*session)->OnEachRank([&](RankVariables& rank) {
      return rank.Write(rank.shards()[0], value);
    });
  };
  EXPECT_THAT(write(HostTensor({{"rows", 3}}, kFloat32)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("call Initialize()")));
  ASSERT_OK((*session)->Initialize());
  EXPECT_THAT(write(HostTensor({{"rows", 3}}, kFloat32)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the shard of variable \"w\" on rank 1 is not "
                                 "like its value\n  shard    f32[rows=2]\n  "
                                 "value    f32[rows=3]")));
  EXPECT_THAT(
      write(HostTensor({{"rows", 3}}, kInt32)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("on rank 0")));
}

}  // namespace
}  // namespace mtf::train
