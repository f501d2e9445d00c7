// SPDX-License-Identifier: Apache-2.0
//
// Schedules are those of PyTorch (tests/fixtures/schedules.py).
#include <string>
#include <utility>
#include <vector>

#include "nn/optimizers/schedules.h"
#include "ops/constant.h"
#include "tests/fixtures.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;

TEST(TorchSchedules, AreThoseOfPyTorch) {
  const auto torch = testing::ReadFixture("schedules");
  const std::vector<std::pair<std::string, nn::Schedule>> cases = {
      {"warmup", nn::LinearWarmup(8)},
      {"linear", nn::LinearDecay(0, 25, 0.2)},
      {"linear_from_10", nn::LinearDecay(10, 25, 0.2)},
      {"cosine", nn::CosineDecay(0, 40, 0.1)},
      {"warmup_cosine", nn::LinearWarmup(8) * nn::CosineDecay(8, 48, 0.05)},
      {"steps", nn::PiecewiseConstant({{0, 1}, {10, 0.1}, {25, 0.01}})},
      {"every_8_steps",
       nn::PiecewiseConstant(
           {{0, 1}, {8, 0.5}, {16, 0.25}, {24, 0.125}, {32, 0.0625}})},
      {"rsqrt", nn::LinearWarmup(10) * nn::RsqrtDecay(10)}};
  EXPECT_EQ(torch.size(), cases.size());
  for (const auto& [name, schedule] : cases) {
    SCOPED_TRACE(name);
    const std::vector<double>& expected = torch.at(name).values;
    OracleGraph o;
    std::vector<Tensor> rates;
    for (size_t step = 0; step < expected.size(); ++step) {
      rates.push_back(schedule.At(
          Constant(o.graph, static_cast<double>(step), kFloat32, {})));
    }
    ASSERT_OK(o.graph.status());
    std::vector<double> values;
    for (const auto& rate : o.RunAll(rates)) values.push_back(rate[0]);
    testing::ExpectNear(values, expected, 1e-5);
  }
}

}  // namespace
}  // namespace mtf
