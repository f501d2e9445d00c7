// SPDX-License-Identifier: Apache-2.0
//
// Prints and scalar summaries of a session.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/observe.h"
#include "ops/reduce.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const Dimension kBatch{"batch", 5}, kIo{"io", 3};

HostTensor Ascending(DType dtype) {
  std::vector<double> numbers(15);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  return HostTensor::FromDoubles({kBatch, kIo}, dtype, numbers);
}

struct Setting {
  const char* device;
  const char* mesh;
  const char* layout;
};

class ObservationsOnDevices : public ::testing::TestWithParam<Setting> {
 protected:
  absl::StatusOr<std::unique_ptr<Session>> Create(const Graph& graph) {
    return Session::Create(graph, GetParam().mesh, GetParam().layout,
                           {.backend = GetParam().device,
                            .on_print = [this](const std::string& line) {
                              lines_.push_back(line);
                            }});
  }
  std::vector<std::string> lines_;
};

INSTANTIATE_TEST_SUITE_P(
    Devices, ObservationsOnDevices,
    ::testing::Values(Setting{"cpu", "", ""},
                      Setting{"cpu", "a:2,b:2", "batch:a, io:b"},
                      Setting{"cpu", "a:3", "batch:a"},
                      Setting{"reference", "a:2", "io:a"},
                      Setting{"cuda_emulated", "a:2", "batch:a"}),
    [](const ::testing::TestParamInfo<Setting>& info) {
      return std::string(info.param.device) + "_" + std::to_string(info.index);
    });

TEST_P(ObservationsOnDevices, PrintsTheFirstElementsOnce) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIo});
  const Tensor y = x * 0.5;
  Print(y, "half", 4);
  Print(Cast(x, kInt32), "", 100);
  auto session = Create(graph);
  ASSERT_OK(session);
  const RunRequest request = {.feeds = {{"x", Ascending(kFloat32)}},
                              .fetches = {ReduceSum(y, {})}};
  ASSERT_OK((*session)->Run(request));
  const std::string half =
      "half: mul f32[batch=5, io=3] = 0 0.5 1 1.5 ...";
  EXPECT_THAT(lines_, ElementsAre(half));
  ASSERT_OK((*session)->RunShards(request));
  EXPECT_THAT(lines_, ElementsAre(half, half));
  lines_.clear();
  ASSERT_OK((*session)->Run(
      {.feeds = request.feeds, .fetches = {graph.observations()[1].of}}));
  EXPECT_THAT(lines_, ElementsAre("cast i32[batch=5, io=3] = 0 1 2 3 4 5 6 7 "
                                  "8 9 10 11 12 13 14"));
}

TEST_P(ObservationsOnDevices, SummariesAreThoseOfTheLastStep) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kIo});
  const Tensor count = Variable(graph, "count", Zeros(graph, kInt32, {}));
  const Tensor sum = ScalarSummary("sum", ReduceSum(x, {}));
  const Tensor twice = sum * 2.0;
  Tensor next;
  {
    Scope scope(graph, "inner");
    next = ScalarSummary("count", AssignAdd(count, Constant(graph, 2)));
  }
  auto session = Create(graph);
  ASSERT_OK(session);
  ASSERT_OK((*session)->Initialize());
  EXPECT_TRUE((*session)->summaries().empty());
  for (int step = 1; step < 3; ++step) {
    ASSERT_OK((*session)->Run({.feeds = {{"x", Ascending(kFloat32)}},
                               .fetches = {sum},
                               .updates = {next}}));
    EXPECT_THAT((*session)->summaries(),
                ElementsAre(Pair("inner/count", 2 * step), Pair("sum", 105)));
  }
  ASSERT_OK((*session)->Run(
      {.feeds = {{"x", Ascending(kFloat32)}}, .fetches = {twice}}));
  EXPECT_THAT((*session)->summaries(), ElementsAre(Pair("sum", 105)));
  EXPECT_THAT(lines_, ElementsAre());
}

}  // namespace
}  // namespace mtf::train
