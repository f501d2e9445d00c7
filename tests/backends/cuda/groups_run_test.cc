// SPDX-License-Identifier: Apache-2.0
//
// Groups that the CUDA device and the CPU device run as one kernel match the
// reference device, at sizes that fill packs, warps and blocks and at sizes
// that do not.
#include <cmath>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/communicator.h"
#include "backends/cuda/device.h"
#include "backends/executor/executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/lower.h"
#include "lowering/program/print_program.h"
#include "tests/backends/cuda/counting_device.h"
#include "tests/backends/cuda/group_cases.h"
#include "tests/backends/fused_for.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/program_text.h"
#include "tests/requirements.h"

namespace mtf::cuda {
namespace {

using ::mtf::testing::LowerText;
using Values = std::map<std::string, HostTensor>;

struct GroupCase {
  RowsCase what;
  int64_t rows, columns;
  DType dtype;
  std::string device = "cuda_emulated";
  friend std::ostream& operator<<(std::ostream& out, const GroupCase& c) {
    return out << c.what << " " << c.rows << "x" << c.columns << " "
               << DTypeName(c.dtype);
  }
};

class Groups : public ::testing::TestWithParam<GroupCase> {};

// The fetches after three steps on `device`.
absl::StatusOr<Values> RunOn(const std::string& device_name,
                             const Program* initialize, const Program& step,
                             const Values& feeds, int* groups) {
  Values outputs;
  LocalRanks ranks{step.mesh};
  MTF_RETURN_IF_ERROR(ranks.Run([&](Communicator& communicator)
                                    -> absl::Status {
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<Device> counted,
                         mtf::CreateDevice(device_name, {}));
    auto device = std::make_unique<CountingDevice>(std::move(counted), groups);
    VariableStore store(*device);
    std::unique_ptr<Executor> first;
    if (initialize != nullptr) {
      MTF_ASSIGN_OR_RETURN(
          first, Executor::Create(*initialize, *device, communicator, store));
      MTF_RETURN_IF_ERROR(first->Run({}, 5, 0, &outputs));
    }
    const Program fused = mtf::testing::FusedFor(*device, step);
    MTF_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                         Executor::Create(fused, *device, communicator, store));
    for (uint32_t i = 0; i < 3; ++i) {
      MTF_RETURN_IF_ERROR(executor->Run(feeds, 5, i, &outputs));
    }
    return absl::OkStatus();
  }));
  return outputs;
}

TEST_P(Groups, MatchTheirMembersAlone) {
  const GroupCase& c = GetParam();
  if (c.columns == 16504) SKIP_UNDER_SANITIZERS("long rows");
  if (c.columns == 8201) SKIP_UNDER_THREAD_SANITIZER("long rows");
  Graph graph;
  const std::vector<Tensor> fetches =
      c.what.build(graph, Dimension{"rows", c.rows},
                   Dimension{"columns", c.columns}, c.dtype);
  Targets targets;
  targets.fetches = fetches;
  if (c.what.updates) targets.updates = {fetches.back()};
  const auto step = LowerText(graph, "", "", targets);
  ASSERT_OK(step);
  Targets start;
  start.initialize = true;
  const auto initialize = LowerText(graph, "", "", start);
  ASSERT_OK(initialize);
  const Program* first = c.what.updates ? &*initialize : nullptr;
  const Values feeds = RandomFeeds(*step);
  int no_groups = 0, groups = 0;
  const auto wanted = RunOn("reference", first, *step, feeds, &no_groups);
  const auto got = RunOn(c.device, first, *step, feeds, &groups);
  ASSERT_OK(wanted);
  ASSERT_OK(got);
  EXPECT_EQ(no_groups, 0);
  if (!c.what.may_stay_single || c.dtype == kFloat32) {
    EXPECT_GT(groups, 0) << PrintProgram(*step);
  }
  for (const auto& [name, want] : *wanted) {
    const HostTensor& is = got->at(name);
    ASSERT_EQ(is.dtype(), want.dtype());
    // Values are up to about 10, after a few roundings.
    const double tolerance = c.dtype == kFloat32 ? 2e-5 : 0.06;
    for (int64_t i = 0; i < want.num_elements(); ++i) {
      const double x = *is.At(i), y = *want.At(i);
      if (std::isnan(y)) {
        EXPECT_TRUE(std::isnan(x)) << name << " " << i;
        continue;
      }
      ASSERT_NEAR(x, y, tolerance * std::max(1.0, std::abs(y)))
          << name << " " << i;
    }
  }
}

// A sum without readers has no memory.
TEST(RowSums, WithoutReadersAreSkipped) {
  const auto program = mtf::testing::ParseText(R"(
mesh{}
%x : f32[r:40, c:24] = input x
%z : f32[r:40, c:24] = input z
%m : f32[r:40] = reduce(%x) sum square over [r:40, c:24]
%y : f32[r:40, c:24] = map(%x, %m) mul
%g : f32[c:24] = reduce(%y) sum
%h : f32[c:24] = reduce(%z, %y) sum mul over [r:40, c:24]
output(%h) h
)");
  ASSERT_OK(program);
  Program planned = *program;
  ASSERT_OK(RunPass("plan_buffers", planned));
  const Values feeds = RandomFeeds(planned);
  int no_groups = 0, groups = 0;
  const auto wanted = RunOn("reference", nullptr, planned, feeds, &no_groups);
  const auto got = RunOn("cuda_emulated", nullptr, planned, feeds, &groups);
  ASSERT_OK(wanted);
  ASSERT_OK(got);
  EXPECT_EQ(groups, 1);
  for (int64_t i = 0; i < 24; ++i) {
    const double want = *wanted->at("h").At(i);
    EXPECT_NEAR(*got->at("h").At(i), want,
                2e-5 * std::max(1.0, std::abs(want)));
  }
}

std::vector<GroupCase> AllCases() {
  std::vector<GroupCase> cases;
  for (const RowsCase& what : RowsCases()) {
    cases.push_back({what, 5, 24, kFloat32});   // packs of four, one warp
    cases.push_back({what, 3, 13, kFloat32});   // no packs
    cases.push_back({what, 2, 520, kFloat32});  // several warps
    cases.push_back({what, 7, 40, kBFloat16});
  }
  // Sums over several stripes of rows.
  for (const RowsCase& what : RowsCases()) {
    if (std::string(what.name).find("NormAndIts") == std::string::npos &&
        std::string(what.name).find("NormWith") == std::string::npos) {
      continue;
    }
    cases.push_back({what, 100, 24, kFloat32});
    cases.push_back({what, 33, 13, kFloat32});
    cases.push_back({what, 19, 264, kBFloat16});
  }
  // Enough stripes for all warps of a block, and more columns than blocks.
  for (const RowsCase& what : RowsCases()) {
    if (std::string(what.name) != "LayerNormWithScaleAndItsGradient") continue;
    cases.push_back({what, 4200, 13, kFloat32});
    cases.push_back({what, 33, 1100, kFloat32});
  }
  // Rows that fit into shared memory, and rows that only fit partially.
  for (int64_t columns : {8201, 16504}) {
    for (DType dtype : {kFloat32, kBFloat16}) {
      for (const char* name :
           {"Softmax", "CrossEntropyAndItsGradient", "SoftmaxAndItsGradient"}) {
        for (const RowsCase& what : RowsCases()) {
          if (std::string(what.name) != name) continue;
          cases.push_back({what, 2, columns, dtype});
        }
      }
    }
  }
  cases.push_back({RowsCases()[0], 1, 1, kFloat32});
  cases.push_back({RowsCases()[3], 300, 8, kFloat16});
  // The CPU too, and the GPU if there is one.
  const size_t emulated = cases.size();
  for (const char* device : {"cpu", "cuda"}) {
    if (device == std::string("cuda") && !HasGpu()) continue;
    for (size_t i = 0; i < emulated; ++i) {
      cases.push_back(cases[i]);
      cases.back().device = device;
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Devices, Groups, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) {
                           return absl::StrCat(
                               info.param.what.name, "_", info.param.rows, "x",
                               info.param.columns, "_",
                               std::string(DTypeName(info.param.dtype)), "_on_",
                               info.param.device);
                         });

}  // namespace
}  // namespace mtf::cuda
