// SPDX-License-Identifier: Apache-2.0
#include "train/loop/evaluation.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/elementwise.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

// Batches of four values, the last of which has one and three of padding.
struct Values {
  explicit Values(Graph& graph) {
    const Dimension batch{"batch", 4};
    const Tensor x = Input(graph, "x", kFloat32, {batch});
    const Tensor weights = Input(graph, "weights", kFloat32, {batch});
    const Tensor sum = ReduceSum(x * weights, {}),
                 count = ReduceSum(weights, {});
    mean = sum / count;
    evaluation = {
        .metrics = LossMetrics(mean, count),
        .batches = 3,
        .feeds = [batch](int64_t i) {
          std::vector<double> x = {1, 2, 3, 4}, weights(4, 1);
          for (double& value : x) value *= static_cast<double>(i + 1);
          if (i == 2) weights = {1, 0, 0, 0};
          using Feeds = std::map<std::string, HostTensor>;
          return Feeds{
              {"x", HostTensor::FromDoubles({batch}, kFloat32, x)},
              {"weights", HostTensor::FromDoubles({batch}, kFloat32, weights)}};
        }};
    evaluation.metrics.push_back({"sum", sum, count});
    evaluation.metrics.push_back({"mean of means", mean});
  }
  Tensor mean;
  Evaluation evaluation;
};

// (1 + 2 + 3 + 4 + 2 + 4 + 6 + 8 + 3) / 9, under every layout.
TEST(Evaluate, AveragesUnevenBatchesByTheirCounts) {
  for (const char* layout : {"", "batch:data"}) {
    Graph graph;
    const Values values(graph);
    const auto session = Session::Create(graph, "data:3", layout);
    ASSERT_OK(session);
    const auto results = Evaluate(**session, values.evaluation);
    ASSERT_OK(results);
    const double mean = 33.0 / 9;
    EXPECT_NEAR(results->at("loss"), mean, 1e-6);
    EXPECT_NEAR(results->at("sum"), mean, 1e-12);
    EXPECT_NEAR(results->at("perplexity"), std::exp(mean), 1e-4);
    EXPECT_NEAR(results->at("mean of means"), (2.5 + 5 + 3) / 3, 1e-6);
    EXPECT_EQ((*session)->step(), 0);
  }
}

TEST(Evaluate, RejectsWhatItCannotAverage) {
  Graph graph;
  const Values values(graph);
  Tensor vector = Input(graph, "vector", kFloat32, {{"batch", 4}});
  const auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  const auto evaluate = [&](std::vector<Metric> metrics, int64_t batches) {
    Evaluation evaluation = values.evaluation;
    evaluation.metrics = std::move(metrics);
    evaluation.batches = batches;
    return Evaluate(**session, evaluation);
  };
  EXPECT_THAT(evaluate({}, 3), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("0 metrics")));
  EXPECT_THAT(
      evaluate({{"a", values.mean}}, 0),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 batches")));
  EXPECT_THAT(
      evaluate({{"a", vector}}, 3),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a scalar")));
  EXPECT_THAT(evaluate({{"a", values.mean}, {"a", values.mean}}, 3),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("two metrics are called \"a\"")));
  EXPECT_THAT(evaluate({{"a", Tensor()}}, 3),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"a\" has no sum")));
}

}  // namespace
}  // namespace mtf::train
