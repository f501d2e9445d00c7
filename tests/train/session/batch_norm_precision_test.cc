// SPDX-License-Identifier: Apache-2.0
//
// Batch norm in f32 of data whose mean is up to 1000 deviations: statistics,
// results and gradients are those of doubles, under sharded batches too, in the
// first step, when the moving mean is 0.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nn/layers/batch_norm.h"
#include "ops/gradients.h"
#include "ops/input.h"
#include "ops/reduce.h"
#include "ops/track_average.h"
#include "ops/variable.h"
#include "tests/matchers.h"
#include "tests/nn/oracle.h"
#include "train/session/session.h"

namespace mtf::train {
namespace {

constexpr int64_t kCount = 13 * 7 * 9, kFeatures = 5;
const Dimension kBatch{"batch", 13}, kHeight{"height", 7}, kWidth{"width", 9},
    kChannels{"channels", kFeatures};
const Shape kImage = {kBatch, kHeight, kWidth, kChannels};
constexpr double kMean[] = {1000, -1000, 300, 3, 0};
constexpr double kDeviation[] = {1, 0.125, 1, 0.125, 4};

struct Data {
  std::vector<double> x, dy;  // [batch, height, width, channels]
};

// Uniform numbers of the given means and about the given deviations, in f32.
Data MakeData(bool blank_first) {
  Data data{testing::SomeNumbers(kCount * kFeatures, 1),
            testing::SomeNumbers(kCount * kFeatures, 2)};
  for (int64_t i = 0; i < kCount * kFeatures; ++i) {
    const int64_t c = i % kFeatures;
    const double scaled = data.x[i] * std::sqrt(3) * kDeviation[c] + kMean[c];
    data.x[i] = static_cast<float>(scaled);
    data.dy[i] = static_cast<float>(data.dy[i]);
    if (blank_first && i < kCount / 13 * kFeatures) data.x[i] = 0;
  }
  return data;
}

struct Normalized {
  std::vector<double> y, dx;
  std::vector<double> mean, variance;  // [channels], of the sample
};

// Batch norm without parameters, in two passes of doubles.
Normalized InDoubles(const Data& data) {
  Normalized result{data.x, data.x, {}, {}};
  for (int64_t c = 0; c < kFeatures; ++c) {
    const auto mean_of = [&](const auto& term) {
      double sum = 0;
      for (int64_t i = c; i < kCount * kFeatures; i += kFeatures) {
        sum += term(i);
      }
      return sum / kCount;
    };
    const double mean = mean_of([&](int64_t i) { return data.x[i]; });
    const double variance =
        mean_of([&](int64_t i) { return std::pow(data.x[i] - mean, 2); });
    const double factor = 1 / std::sqrt(variance + 1e-5);
    const auto y = [&](int64_t i) { return (data.x[i] - mean) * factor; };
    const double dbias = mean_of([&](int64_t i) { return data.dy[i]; });
    const double dscale = mean_of([&](int64_t i) { return data.dy[i] * y(i); });
    for (int64_t i = c; i < kCount * kFeatures; i += kFeatures) {
      result.y[i] = y(i);
      result.dx[i] = (data.dy[i] - dbias - y(i) * dscale) * factor;
    }
    result.mean.push_back(mean);
    result.variance.push_back(variance * kCount / (kCount - 1));
  }
  return result;
}

std::vector<double> DoublesOf(const HostTensor& tensor, int64_t count) {
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = *tensor.At(i);
  return values;
}

// The first step of a session, and the averages after it.
Normalized RunLayer(const Data& data, const std::string& mesh,
                    const std::string& layout) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, kImage);
  const Tensor dy = Input(graph, "dy", kFloat32, kImage);
  const Tensor y = nn::BatchNorm(
      x, kChannels, {.momentum = 1, .scale = false, .bias = false});
  const Tensor dx = Gradients(y, {x}, dy)[0];
  std::vector<Tensor> updates;
  for (const AverageUpdate& each : AverageUpdates(ReduceSum(y, {}))) {
    updates.push_back(Assign(each.average, each.next));
  }
  const RunRequest request = {
      .feeds = {{"x", HostTensor::FromDoubles(kImage, kFloat32, data.x)},
                {"dy", HostTensor::FromDoubles(kImage, kFloat32, data.dy)}},
      .fetches = {y, dx},
      .updates = updates};
  Normalized result;
  const auto session = Session::Create(graph, mesh, layout);
  EXPECT_OK(session);
  if (!session.ok()) return result;
  EXPECT_OK((*session)->Initialize());
  const auto values = (*session)->Run(request);
  EXPECT_OK(values);
  if (!values.ok()) return result;
  result.y = DoublesOf((*values)[0], kCount * kFeatures);
  result.dx = DoublesOf((*values)[1], kCount * kFeatures);
  const auto average = [&](const char* name) {
    return DoublesOf(*(*session)->ReadVariable(name), kFeatures);
  };
  result.mean = average("batch_norm/moving_mean");
  result.variance = average("batch_norm/moving_variance");
  return result;
}

// Tolerances of each channel are relative to the value for statistics, and to
// the deviation, or its inverse, for results and gradients.
void ExpectAlike(const Normalized& actual, const Normalized& expected,
                 double of_statistics, double of_values) {
  ASSERT_EQ(actual.y.size(), expected.y.size());
  for (int64_t c = 0; c < kFeatures; ++c) {
    SCOPED_TRACE(c);
    const double deviation = std::sqrt(expected.variance[c]);
    EXPECT_NEAR(actual.mean[c], expected.mean[c],
                1e-6 * (std::abs(expected.mean[c]) + deviation));
    EXPECT_NEAR(actual.variance[c] / expected.variance[c], 1, of_statistics);
    // x - mean, with a mean in f32, has an error of a part of the mean.
    const double tolerance =
        of_values + 1e-7 * std::abs(expected.mean[c]) / deviation;
    double of_y = 0, of_dx = 0;
    for (int64_t i = c; i < kCount * kFeatures; i += kFeatures) {
      of_y = std::max(of_y, std::abs(actual.y[i] - expected.y[i]));
      of_dx = std::max(of_dx, std::abs(actual.dx[i] - expected.dx[i]));
    }
    EXPECT_LT(of_y, tolerance);
    EXPECT_LT(of_dx * deviation, tolerance);
  }
}

struct Sharding {
  const char *mesh, *layout;
};
constexpr Sharding kShardings[] = {
    {"", ""},
    {"data:3", "batch:data"},
    {"rows:2", "height:rows"},
    {"rows:2,columns:2", "height:rows, width:columns"},
    {"data:2,rows:2,columns:2", "batch:data, height:rows, width:columns"},
    {"data:2,model:2", "batch:data, channels:model"}};

TEST(BatchNormPrecision, TheFirstStepIsThatOfDoubles) {
  const Data data = MakeData(/*blank_first=*/false);
  const Normalized expected = InDoubles(data);
  for (const Sharding& each : kShardings) {
    SCOPED_TRACE(absl::StrCat(each.mesh, " ", each.layout));
    ExpectAlike(RunLayer(data, each.mesh, each.layout), expected, 5e-6, 1e-5);
  }
}

// The sums are taken about a number that is as far from the mean as it can be.
TEST(BatchNormPrecision, ABlankFirstExampleLosesFewDigits) {
  const Data data = MakeData(/*blank_first=*/true);
  const Normalized expected = InDoubles(data);
  for (const Sharding& each : kShardings) {
    SCOPED_TRACE(absl::StrCat(each.mesh, " ", each.layout));
    ExpectAlike(RunLayer(data, each.mesh, each.layout), expected, 1e-5, 1e-5);
  }
}

}  // namespace
}  // namespace mtf::train
