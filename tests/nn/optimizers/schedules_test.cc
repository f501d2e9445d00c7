// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/schedules.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nn/optimizers/sgd.h"
#include "ops/elementwise.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

std::vector<double> ValuesAt(const nn::Schedule& schedule,
                             const std::vector<double>& steps) {
  OracleGraph o;
  std::vector<Tensor> values;
  for (double step : steps) {
    values.push_back(schedule.At(Constant(o.graph, step, kFloat32, {})));
  }
  std::vector<double> numbers;
  for (const auto& value : o.RunAll(values)) numbers.push_back(value[0]);
  return numbers;
}

TEST(Schedules, ANumberIsConstant) {
  testing::ExpectNear(ValuesAt(0.25, {0, 1, 1000}), {0.25, 0.25, 0.25});
}

TEST(Schedules, WarmupStartsAboveZeroAndEndsAtOne) {
  testing::ExpectNear(ValuesAt(nn::LinearWarmup(4), {0, 1, 3, 4, 100}),
                      {0.25, 0.5, 1, 1, 1});
}

TEST(Schedules, LinearDecay) {
  testing::ExpectNear(
      ValuesAt(nn::LinearDecay(10, 20, 0.2), {0, 10, 15, 20, 99}),
      {1, 1, 0.6, 0.2, 0.2});
}

TEST(Schedules, CosineDecay) {
  testing::ExpectNear(
      ValuesAt(nn::CosineDecay(10, 20, 0.1), {0, 10, 12, 15, 20, 99}),
      {1, 1, 0.1 + 0.45 * (1 + std::cos(0.2 * std::numbers::pi)), 0.55, 0.1,
       0.1});
}

TEST(Schedules, RsqrtDecayContinuesTheWarmup) {
  testing::ExpectNear(ValuesAt(nn::RsqrtDecay(100), {0, 99, 399}), {1, 1, 0.5});
  testing::ExpectNear(
      ValuesAt(nn::LinearWarmup(100) * nn::RsqrtDecay(100), {0, 99, 399}),
      {0.01, 1, 0.5});
}

TEST(Schedules, SlantedTriangular) {
  testing::ExpectNear(
      ValuesAt(nn::SlantedTriangular(100, 0.2, 10), {0, 10, 20, 60, 100, 999}),
      {0.1, 0.55, 1, 0.55, 0.1, 0.1});
}

TEST(Schedules, Piecewise) {
  const std::vector<nn::SchedulePoint> points = {{2, 1}, {4, 0.5}, {8, 2}};
  testing::ExpectNear(
      ValuesAt(nn::PiecewiseConstant(points), {0, 2, 3, 4, 7, 8, 99}),
      {1, 1, 1, 0.5, 0.5, 2, 2});
  testing::ExpectNear(
      ValuesAt(nn::PiecewiseLinear(points), {0, 2, 3, 4, 7, 8, 99}),
      {1, 1, 0.75, 0.5, 1.625, 2, 2});
  testing::ExpectNear(ValuesAt(0.5 * nn::PiecewiseLinear({{3, 4}}), {0, 9}),
                      {2, 2});
}

TEST(Schedules, ProductsWithNumbers) {
  testing::ExpectNear(
      ValuesAt(2.0 * nn::LinearWarmup(4) * nn::LinearDecay(0, 8), {1, 4}),
      {2 * 0.5 * 0.875, 2 * 0.5});
  testing::ExpectNear(ValuesAt(nn::Product({}), {3}), {1});
}

TEST(Schedules, UserFunction) {
  const nn::Schedule schedule([](Tensor step) { return step * step + 1.0; });
  testing::ExpectNear(ValuesAt(schedule, {0, 3}), {1, 10});
}

// Each update takes the rate of its own step.
TEST(Schedules, DriveAnOptimizer) {
  OracleGraph o;
  const Tensor w = o.Parameter("w", {}, {0.0});
  const Tensor step =
      nn::Sgd({.learning_rate = nn::LinearWarmup(2)}).Minimize(w * 1.0);
  ASSERT_OK(o.graph.status());
  for (double expected : {-0.5, -1.5, -2.5}) {
    o.Run(step);
    EXPECT_NEAR(o.Value("w")[0], expected, 1e-9);
  }
}

TEST(ScheduleErrors, AnEmptyRange) {
  OracleGraph o;
  const Tensor w = o.Parameter("w", {}, {0.0});
  nn::Sgd({.learning_rate = nn::CosineDecay(20, 20)}).Minimize(w * 1.0);
  EXPECT_THAT(
      o.graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("a decay must end after it begins, not at 20 from "
                         "20 (cosine_decay, schedules_test.cc:")));
}

TEST(ScheduleErrors, PiecesAndTriangles) {
  const std::pair<nn::Schedule, const char*> cases[] = {
      {nn::PiecewiseConstant({}),
       "a piecewise schedule has no points "
       "(piecewise_constant, "},
      {nn::PiecewiseLinear({{5, 1}, {5, 2}}),
       "the steps of a piecewise schedule must increase, not go from 5 to 5 "
       "(piecewise_linear, "},
      {nn::PiecewiseConstant({{5, -1}}),
       "the value at step 5 is -1, not a non-negative number of f32 "
       "(piecewise_constant, "},
      {nn::SlantedTriangular(0),
       "a schedule takes at least 1 step, not 0 "
       "(slanted_triangular, "},
      {nn::SlantedTriangular(9, 1),
       "cut_fraction is 1, not in [0, 1) "
       "(slanted_triangular, "},
      {nn::SlantedTriangular(9, 0.5, 0.5),
       "ratio is 0.5, less than 1 "
       "(slanted_triangular, "}};
  for (const auto& [schedule, message] : cases) {
    OracleGraph o;
    schedule.At(Constant(o.graph, 0, kFloat32, {}));
    EXPECT_THAT(
        o.graph.status(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(absl::StrCat(message, "schedules_test.cc:"))));
  }
}

TEST(ScheduleErrors, NoSteps) {
  OracleGraph o;
  const Tensor w = o.Parameter("w", {}, {0.0});
  const int line = __LINE__ + 1;
  nn::Sgd({.learning_rate = nn::LinearWarmup(0)}).Minimize(w * 1.0);
  EXPECT_THAT(
      o.graph.status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr(absl::StrCat("a schedule takes at least 1 step, not 0 "
                                      "(linear_warmup, schedules_test.cc:",
                                      line, ")"))));
}

TEST(ScheduleErrors, Rates) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double rate : {-0.1, infinity, 1e39, std::nan("")}) {
    const int line = __LINE__ + 3;
    const std::vector<nn::Schedule> schedules = {
        // Three schedules with one wrong number each.
        rate, nn::LinearDecay(0, 9, rate), nn::CosineDecay(0, 9, rate)};
    const std::vector<std::string> words = {
        absl::StrCat("a schedule is ", rate,
                     ", not a non-negative number of f32 ",
                     "(schedule, schedules_test.cc:", line, ")"),
        absl::StrCat("final_value is ", rate,
                     ", not a non-negative number of f32",
                     " (linear_decay, schedules_test.cc:", line, ")"),
        absl::StrCat("final_value is ", rate,
                     ", not a non-negative number of f32",
                     " (cosine_decay, schedules_test.cc:", line, ")")};
    for (size_t i = 0; i < 3; ++i) {
      OracleGraph o;
      (0.5 * schedules[i]).At(Constant(o.graph, 0, kFloat32, {}));
      EXPECT_THAT(o.graph.status(),
                  StatusIs(absl::StatusCode::kInvalidArgument, words[i]));
    }
  }
}

TEST(Schedules, DecayBetweenAnyTwoSteps) {
  constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  testing::ExpectNear(ValuesAt(nn::LinearDecay(kFirst, kLast), {0}), {0.5});
  testing::ExpectNear(ValuesAt(nn::CosineDecay(kFirst, kLast), {0}), {0.5});
}

TEST(Schedules, OfAnEmptyStepAreEmpty) {
  for (const nn::Schedule& schedule :
       {nn::Schedule(0.1), nn::LinearWarmup(3), nn::CosineDecay(1, 0),
        nn::Product({}), 2.0 * nn::RsqrtDecay(3)}) {
    EXPECT_FALSE(schedule.At(Tensor()).valid());
  }
}

TEST(ScheduleErrors, AFunctionThatReturnsNothing) {
  OracleGraph o;
  const Tensor w = o.Parameter("w", {}, {0.0});
  const nn::Schedule nothing([](Tensor) { return Tensor(); });
  nn::Sgd({.learning_rate = nothing * 0.1}).Minimize(w * 1.0);
  EXPECT_THAT(o.graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the learning rate schedule returned an empty "
                                 "Tensor (sgd, schedules_test.cc:")));
}

}  // namespace
}  // namespace mtf
