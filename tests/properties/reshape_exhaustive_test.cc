// SPDX-License-Identifier: Apache-2.0
//
// Every rename, merge and split between every pair of layouts on small meshes,
// through lowering and the executor; the ancestor permutes data here. Sizes
// include ones that no axis divides. Bytes never exceed those of gathering
// everything first.
#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/backend.h"
#include "backends/communicator.h"
#include "backends/executor/executor.h"
#include "layouts/shard.h"
#include "lowering/lower.h"
#include "lowering/program/count_costs.h"
#include "lowering/program/print_program.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reshape.h"
#include "tests/matchers.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

// Every way to shard `dims` dimensions over ordered axes of `mesh`, each axis
// at most once.
std::vector<std::vector<AxisList>> AllShardings(const Mesh& mesh, int dims) {
  std::vector<std::vector<AxisList>> all = {std::vector<AxisList>(dims)};
  // Extend one list of axes at a time. The order of additions to different
  // lists does not matter, so remove duplicates.
  for (size_t i = 0; i < all.size(); ++i) {
    AxisSet used = 0;
    for (const AxisList& axes : all[i]) used |= SetOf(axes);
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (used >> axis & 1) continue;
      for (int dim = 0; dim < dims; ++dim) {
        std::vector<AxisList> next = all[i];
        next[dim].push_back(axis);
        if (std::find(all.begin(), all.end(), next) == all.end()) {
          all.push_back(next);
        }
      }
    }
  }
  return all;
}

// Rules for the names of `shape` that are not in `known`.
std::string RulesOf(const Mesh& mesh, const Shape& shape,
                    const std::vector<AxisList>& axes, const Shape& known) {
  std::string text;
  for (int i = 0; i < shape.rank(); ++i) {
    if (axes[i].empty() || known.Contains(shape[i].name)) continue;
    absl::StrAppend(&text, shape[i].name, ":", mesh.AxisNames(axes[i]), "\n");
  }
  return text;
}

LocalRanks& RanksOf(const Mesh& mesh) {
  static auto& pool = *new std::map<std::string, std::unique_ptr<LocalRanks>>;
  std::unique_ptr<LocalRanks>& ranks = pool[mesh.ToString()];
  if (ranks == nullptr) ranks = std::make_unique<LocalRanks>(mesh);
  return *ranks;
}

// Runs a reshape of 0, 1, 2, ... from `before` to `after` under both shardings
// and checks every rank's shard.
absl::Status RunOne(const Mesh& mesh, const Shape& before,
                    const std::vector<AxisList>& before_axes,
                    const Shape& after,
                    const std::vector<AxisList>& after_axes) {
  Graph graph;
  Tensor x = Input(graph, "x", kFloat32, before);
  // The sum reshards the result by the rules of its own names.
  Tensor y = Reshape(x, after) + 1.0;
  MTF_RETURN_IF_ERROR(graph.status());
  const std::string text = RulesOf(mesh, before, before_axes, {}) +
                           RulesOf(mesh, after, after_axes, before);
  MTF_ASSIGN_OR_RETURN(const LayoutRules rules,
                       LayoutRules::Parse(text, "test"));
  MTF_ASSIGN_OR_RETURN(const LayoutBinding binding,
                       BindLayout(graph, mesh, rules));
  MTF_ASSIGN_OR_RETURN(
      const Program program,
      Lower(graph, binding, {.fetches = {y}, .fetch_shards = true}));

  // The naive way gathers the tensor first: every rank receives all that it
  // does not hold.
  TensorLayout source;
  for (const AxisList& axes : before_axes) source.dims.push_back(axes);
  int64_t global_bytes = 4;
  for (const Dimension& dim : before)
    global_bytes *= binding.grains.ExtentOf(dim);
  int64_t naive =
      global_bytes - 4 * LocalElements(binding.grains, before, source);
  // A sharded dimension of one element has one element on every device, so the
  // result is larger by that factor.
  for (const Dimension& dim : after) {
    if (dim.size == 1) naive *= binding.grains.ExtentOf(dim);
  }
  int64_t bytes = 0;
  for (const CollectiveCost& cost : ListCollectives(program)) {
    bytes += cost.bytes;
  }
  if (bytes > naive) {
    return absl::InternalError(absl::StrCat(bytes, " bytes, naive ", naive));
  }

  std::vector<float> numbers(before.num_elements());
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i);
  const std::map<std::string, HostTensor> feeds = {
      {"x", HostTensor::Of(before, numbers)}};
  TensorLayout target;
  for (const AxisList& axes : after_axes) target.dims.push_back(axes);
  absl::Status status =
      RanksOf(mesh).Run([&](Communicator& communicator) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                             CreateDevice("cpu", {.num_threads = 1}));
        VariableStore variables(*device);
        MTF_ASSIGN_OR_RETURN(
            std::unique_ptr<Executor> executor,
            Executor::Create(program, *device, communicator, variables));
        std::map<std::string, HostTensor> outputs;
        MTF_RETURN_IF_ERROR(executor->Run(feeds, 0, 0, &outputs));
        const HostTensor& shard = outputs[y.name()];
        const std::vector<ShardedDimension> dims =
            ShardOf(binding.grains, after, target, communicator.rank());
        std::vector<int64_t> at(dims.size(), 0);
        for (int64_t i = 0; i < shard.num_elements(); ++i) {
          int64_t index = 0;
          for (size_t d = 0; d < dims.size(); ++d) {
            index = index * after[static_cast<int>(d)].size + dims[d].offset +
                    at[d];
          }
          if (*shard.At(i) != static_cast<double>(index) + 1) {
            return absl::InternalError(
                absl::StrCat("rank ", communicator.rank(), " element ", i,
                             " holds ", *shard.At(i), ", not ", index + 1));
          }
          for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
            if (++at[d] < dims[d].valid) break;
            at[d] = 0;
          }
        }
        return absl::OkStatus();
      });
  if (!status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(), "\nmesh ", mesh.ToString(), " rules ",
                     text, "\n", PrintProgram(program)));
  }
  return status;
}

struct ReshapeCase {
  const char* name;
  Shape before, after;
  friend std::ostream& operator<<(std::ostream& out, const ReshapeCase& c) {
    return out << c.name;
  }
};

class EveryReshape
    : public ::testing::TestWithParam<std::tuple<const char*, ReshapeCase>> {};

TEST_P(EveryReshape, GivesEveryRankItsElements) {
  const Mesh mesh = *Mesh::Parse(std::get<0>(GetParam()));
  if (mesh.num_axes() > 1) SKIP_UNDER_THREAD_SANITIZER("a large mesh");
  if (mesh.num_axes() > 2) SKIP_UNDER_SANITIZERS("thousands of layouts");
  const ReshapeCase& reshape = std::get<1>(GetParam());
  int failures = 0, runs = 0;
  for (const auto& before : AllShardings(mesh, reshape.before.rank())) {
    for (const auto& after : AllShardings(mesh, reshape.after.rank())) {
      // A name in both shapes has one rule.
      bool consistent = true;
      for (int i = 0; i < reshape.before.rank(); ++i) {
        const int j = reshape.after.Find(reshape.before[i].name);
        consistent = consistent && (j < 0 || before[i] == after[j]);
      }
      if (!consistent) continue;
      ++runs;
      const absl::Status status =
          RunOne(mesh, reshape.before, before, reshape.after, after);
      if (!status.ok() && ++failures < 4) {
        ADD_FAILURE() << status.ToString();
      }
    }
  }
  EXPECT_EQ(failures, 0) << "of " << runs;
  RecordProperty("runs", runs);
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, EveryReshape,
    ::testing::Combine(
        ::testing::Values("x:2", "x:3", "x:4", "x:2,y:2", "x:2,y:3", "x:2,y:4",
                          "x:2,y:2,z:2"),
        ::testing::Values(
            ReshapeCase{"Rename8", {{"a", 8}}, {{"a2", 8}}},
            ReshapeCase{"Rename7", {{"a", 7}}, {{"a2", 7}}},
            ReshapeCase{
                "RenameOneOfTwo", {{"a", 6}, {"b", 5}}, {{"a2", 6}, {"b", 5}}},
            ReshapeCase{"Merge8x4", {{"a", 8}, {"b", 4}}, {{"m", 32}}},
            ReshapeCase{"Merge3x5", {{"a", 3}, {"b", 5}}, {{"m", 15}}},
            ReshapeCase{"Merge2x6", {{"a", 2}, {"b", 6}}, {{"m", 12}}},
            ReshapeCase{"Split32", {{"m", 32}}, {{"a", 8}, {"b", 4}}},
            ReshapeCase{"Split15", {{"m", 15}}, {{"a", 3}, {"b", 5}}},
            ReshapeCase{"Split12", {{"m", 12}}, {{"a", 2}, {"b", 6}}},
            ReshapeCase{
                "Regroup4x6", {{"a", 4}, {"b", 6}}, {{"p", 8}, {"q", 3}}},
            ReshapeCase{"MergeBehind4",
                        {{"k", 4}, {"a", 3}, {"b", 4}},
                        {{"k", 4}, {"m", 12}}},
            ReshapeCase{"SplitBehind4",
                        {{"k", 4}, {"m", 12}},
                        {{"k2", 4}, {"a", 3}, {"b", 4}}},
            ReshapeCase{"DropOne", {{"u", 1}, {"a", 7}}, {{"a", 7}}},
            ReshapeCase{"AddOne", {{"a", 7}}, {{"u", 1}, {"a2", 7}}},
            ReshapeCase{"MoveOne", {{"u", 1}, {"a", 5}}, {{"a", 5}, {"u", 1}}},
            ReshapeCase{"MergeAroundOne",
                        {{"a", 2}, {"u", 1}, {"b", 6}},
                        {{"m", 12}}})),
    [](const auto& info) {
      std::string mesh = std::get<0>(info.param);
      for (char& c : mesh) {
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      }
      return absl::StrCat(std::get<1>(info.param).name, "On", mesh);
    });

// A dimension of size 1 does not constrain the sharding of others.
TEST(Reshape, DimensionsOfSizeOneAreFree) {
  const Mesh mesh = *Mesh::Parse("x:2");
  const Dimension one{"one", 1}, other{"other", 1};
  for (int64_t size : {4, 5}) {
    const Dimension batch{"batch", size}, rows{"rows", 3};
    const std::vector<Shape> shapes = {{batch, rows},
                                       {one, batch, rows},
                                       {batch, one, rows},
                                       {batch, rows, one},
                                       {one, batch, rows, other}};
    for (const Shape& before : shapes) {
      for (const Shape& after : shapes) {
        Graph graph;
        const Tensor x = Input(graph, "x", kFloat32, before);
        const Tensor y = Reshape(x, after) + 1.0;
        const LayoutRules rules = *LayoutRules::Parse("batch:x", "test");
        const auto program = Lower(graph, *BindLayout(graph, mesh, rules),
                                   {.fetches = {y}, .fetch_shards = true});
        ASSERT_OK(program);
        EXPECT_TRUE(ListCollectives(*program).empty())
            << before.ToString() << " to " << after.ToString() << "\n"
            << PrintProgram(*program);
      }
    }
  }
}

// The smallest case in which the ancestor permutes data.
TEST(Reshape, RenameFromColsToRowsKeepsTheOrder) {
  const Mesh mesh = *Mesh::Parse("rows:2,cols:4");
  EXPECT_OK(RunOne(mesh, {{"a", 8}}, {{1}}, {{"a2", 8}}, {{0}}));
}

}  // namespace
}  // namespace mtf::testing
