// SPDX-License-Identifier: Apache-2.0
//
// Small programs under every layout of small meshes, with sizes that no axis
// divides, give the values of the oracle. The rules of different names are
// independent, so two dimensions of an operation may share mesh axes: lookups
// allow that.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/backend.h"
#include "backends/communicator.h"
#include "backends/executor/executor.h"
#include "backends/reference/interpreter.h"
#include "layouts/all_layouts.h"
#include "lowering/lower.h"
#include "lowering/program/print_program.h"
#include "ops/dynamic_slice.h"
#include "ops/einsum.h"
#include "ops/elementwise.h"
#include "ops/gather.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "tests/backends/fused_for.h"
#include "tests/matchers.h"
#include "tests/requirements.h"

namespace mtf::testing {
namespace {

struct SmallProgram {
  Graph graph;
  std::map<std::string, HostTensor> feeds;
  std::vector<Tensor> fetches;
  std::vector<std::string> names;  // that get rules

  Tensor Feed(const std::string& name, const Shape& shape) {
    std::vector<double> numbers(shape.num_elements());
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = std::sin(1.3 * static_cast<double>(i + 7 * feeds.size()));
    }
    feeds[name] = HostTensor::FromDoubles(shape, kFloat32, numbers);
    return Input(graph, name, kFloat32, shape);
  }
  Tensor FeedIndices(const std::string& name, const Shape& shape, int limit) {
    std::vector<double> numbers(shape.num_elements());
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<double>((5 * i + 3) % limit);
    }
    feeds[name] = HostTensor::FromDoubles(shape, kInt32, numbers);
    return Input(graph, name, kInt32, shape);
  }
};

absl::Status RunAndCompare(const SmallProgram& small, const Program& program,
                           const std::vector<OracleTensor>& wanted,
                           LocalRanks& ranks) {
  return ranks.Run([&](Communicator& communicator) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                         CreateDevice("cpu", {.num_threads = 1}));
    VariableStore variables(*device);
    const Program fused = FusedFor(*device, program);
    MTF_ASSIGN_OR_RETURN(
        const std::unique_ptr<Executor> executor,
        Executor::Create(fused, *device, communicator, variables));
    std::map<std::string, HostTensor> outputs;
    MTF_RETURN_IF_ERROR(executor->Run(small.feeds, 0, 0, &outputs));
    for (size_t f = 0; f < wanted.size(); ++f) {
      const std::string name = small.fetches[f].name();
      const HostTensor& got = outputs[name];
      for (size_t i = 0; i < wanted[f].data.size(); ++i) {
        const double a = wanted[f].data[i],
                     b = *got.At(static_cast<int64_t>(i));
        if (std::abs(a - b) < 1e-5) continue;
        return absl::InternalError(absl::StrCat("rank ", communicator.rank(),
                                                " \"", name, "\" element ", i,
                                                " is ", b, ", not ", a));
      }
    }
    return absl::OkStatus();
  });
}

// Runs under every combination of at most two axes for each name.
void ExpectOracleValues(const SmallProgram& small, const char* mesh_text) {
  const Mesh mesh = *Mesh::Parse(mesh_text);
  const auto wanted = Interpret(small.graph, small.feeds, small.fetches);
  ASSERT_OK(wanted);
  std::vector<AxisList> lists;
  for (const TensorLayout& layout : internal::AllLayouts(mesh, 1, false)) {
    if (layout.dims[0].size() <= 2) lists.push_back(layout.dims[0]);
  }
  LocalRanks ranks(mesh);
  std::vector<size_t> chosen(small.names.size(), 0);
  int legal = 0, failures = 0;
  for (size_t digit = 0; digit < chosen.size();) {
    std::vector<std::string> rules;
    for (size_t i = 0; i < chosen.size(); ++i) {
      const AxisList& axes = lists[chosen[i]];
      if (axes.empty()) continue;
      rules.push_back(absl::StrCat(small.names[i], ":", mesh.AxisNames(axes)));
    }
    const std::string text = absl::StrJoin(rules, ", ");
    const auto binding =
        BindLayout(small.graph, mesh, *LayoutRules::Parse(text, "test"));
    ASSERT_OK(binding) << text;
    const auto program =
        Lower(small.graph, *binding, {.fetches = small.fetches});
    if (program.ok()) {
      ++legal;
      const absl::Status status =
          RunAndCompare(small, *program, *wanted, ranks);
      if (!status.ok() && ++failures < 4) {
        ADD_FAILURE() << status.ToString() << "\n"
                      << mesh_text << " " << text << "\n"
                      << PrintProgram(*program);
      }
    } else {
      EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument)
          << text << "\n"
          << program.status();
    }
    for (digit = 0; digit < chosen.size(); ++digit) {
      if (++chosen[digit] < lists.size()) break;
      chosen[digit] = 0;
    }
  }
  EXPECT_EQ(failures, 0);
  EXPECT_GT(legal, 1);
}

class EveryLayout : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Mesh::Parse(GetParam())->num_axes() > 1) {
      SKIP_UNDER_THREAD_SANITIZER("a large mesh");
    }
  }
};

TEST_P(EveryLayout, OfALookupWithItsGradient) {
  for (const int64_t d : {4, 3}) {
    SmallProgram small;
    const Dimension vocab{"vocab", 7}, batch{"batch", 8}, model{"d", d};
    const Tensor table = small.Feed("table", {vocab, model});
    const Tensor ids = small.FeedIndices("ids", {batch}, 7);
    const Tensor rows = Gather(table, ids, "vocab");
    const Tensor dy = small.Feed("dy", {batch, model});
    const Tensor gradient = Gradients(ReduceSum(rows * dy, {}), {table})[0];
    small.fetches = {rows * 2.0, gradient};
    small.names = {"vocab", "batch", "d"};
    ExpectOracleValues(small, GetParam());
  }
}

TEST_P(EveryLayout, OfALookupInAMatchedTable) {
  SmallProgram small;
  const Dimension vocab{"vocab", 4}, batch{"batch", 3}, time{"time", 8};
  const Tensor table = small.Feed("table", {batch, vocab});
  const Tensor ids = small.FeedIndices("ids", {batch, time}, 4);
  const Tensor rows = Gather(table, ids, "vocab");
  const Tensor dy = small.Feed("dy", {time, batch});
  const Tensor gradient = Gradients(ReduceSum(rows * dy, {}), {table})[0];
  small.fetches = {rows * 2.0, gradient};
  small.names = {"vocab", "batch", "time"};
  ExpectOracleValues(small, GetParam());
}

TEST_P(EveryLayout, OfRowsThatAreReadAndReplaced) {
  const Dimension batch{"batch", 3}, model{"d", 2};
  for (const int64_t size : {7, 4}) {
    for (const bool per_row : {false, true}) {
      for (const Dimension& rows :
           {Dimension{"now", 2}, Dimension{"length", 3}}) {
        SmallProgram small;
        const Dimension length{"length", size};
        const Tensor x = small.Feed("x", {batch, length, model});
        const Tensor index =
            small.FeedIndices("index", per_row ? Shape({batch}) : Shape(),
                              static_cast<int>(size - rows.size) + 1);
        const Tensor read = DynamicSlice(x * 2.0, "length", index, rows);
        const Tensor update = small.Feed("update", {batch, rows, model});
        const Tensor written = UpdateSlice(x + 1.0, update, "length", index);
        const Tensor dread = small.Feed("dread", read.shape());
        const Tensor dwritten = small.Feed("dwritten", {batch, length, model});
        small.fetches = {read * 2.0, written + x};
        for (Tensor gradient : Gradients(ReduceSum(read * dread, {}) +
                                             ReduceSum(written * dwritten, {}),
                                         {x, update})) {
          small.fetches.push_back(gradient);
        }
        small.names = {"batch", "length", "d"};
        ExpectOracleValues(small, GetParam());
      }
    }
  }
}

TEST_P(EveryLayout, OfAMergeAndItsGradient) {
  SmallProgram small;
  const Dimension k{"k", 4}, a{"a", 2}, c{"c", 6};
  const Tensor x = small.Feed("x", {k, a, c});
  const Tensor w = small.Feed("w", {k, {"ac", 12}});
  const Tensor y = MergeDimensions(x * 2.0, {"a", "c"}, "ac");
  const Tensor gradient = Gradients(ReduceSum(y * w, {}), {x})[0];
  small.fetches = {y + w, gradient};
  small.names = {"a", "c", "ac"};
  ExpectOracleValues(small, GetParam());
}

TEST_P(EveryLayout, OfSumsThatAreUsedTwice) {
  SmallProgram small;
  const Dimension h{"h", 5}, g{"g", 3}, b{"b", 4}, o{"o", 3};
  const Tensor x = small.Feed("x", {b, h}), v = small.Feed("v", {h, o}),
               w = small.Feed("w", {h, o}), y = small.Feed("y", {b, g}),
               u = small.Feed("u", {g, o}), r = small.Feed("r", {b, o});
  const Tensor p = Einsum({x, v}, {b, o}), q = Einsum({x, w}, {b, o}),
               s = Einsum({y, u}, {b, o});
  small.fetches = {p + q + p, r - (q - (p - s)) - Negate(p) * 2.0 - q,
                   s - p + Relu(q) - p, (p - q) * 0.5 - (r - (q + p))};
  small.names = {"h", "g", "o"};
  ExpectOracleValues(small, GetParam());
  for (const Tensor& fetch : std::vector<Tensor>(small.fetches)) {
    small.fetches = {fetch};
    ExpectOracleValues(small, GetParam());
  }
}

// Every position of every range along a sharded dimension: an index for each
// row of a batch of all positions.
TEST(ShardedRows, AreReadAndReplacedAtEveryPosition) {
  const Dimension model{"d", 2};
  for (const char* mesh_text : {"x:2", "x:3", "x:4", "x:2,y:2", "x:2,y:3"}) {
    const Mesh mesh = *Mesh::Parse(mesh_text);
    const char* layout = mesh.num_axes() == 1 ? "length:x" : "length:y+x";
    LocalRanks ranks(mesh);
    for (int64_t size = 1; size <= 13; ++size) {
      for (int64_t count = 1; count <= std::min<int64_t>(size, 5); ++count) {
        const Dimension length{"length", size}, now{"now", count},
            batch{"batch", size - count + 1};
        SmallProgram small;
        const Tensor x = small.Feed("x", {batch, length, model});
        const Tensor update = small.Feed("update", {batch, now, model});
        const Tensor index = small.FeedIndices("index", {batch}, 1);
        for (int64_t b = 0; b < batch.size; ++b) {
          static_cast<int32_t*>(small.feeds["index"].data())[b] =
              static_cast<int32_t>(b);
        }
        small.fetches = {DynamicSlice(x, "length", index, now),
                         UpdateSlice(x, update, "length", index)};
        const auto wanted = Interpret(small.graph, small.feeds, small.fetches);
        ASSERT_OK(wanted);
        const auto binding =
            BindLayout(small.graph, mesh, *LayoutRules::Parse(layout, "test"));
        ASSERT_OK(binding);
        const auto program =
            Lower(small.graph, *binding, {.fetches = small.fetches});
        ASSERT_OK(program);
        ASSERT_OK(RunAndCompare(small, *program, *wanted, ranks))
            << mesh_text << ": " << count << " of " << size << "\n"
            << PrintProgram(*program);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, EveryLayout,
                         ::testing::Values("x:2", "x:3", "x:4", "x:2,y:2",
                                           "x:2,y:3", "x:4,y:2",
                                           "x:2,y:2,z:2"));

}  // namespace
}  // namespace mtf::testing
