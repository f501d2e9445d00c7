// SPDX-License-Identifier: Apache-2.0
#include "planning/machine/machine_curves.h"

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "planning/machine/machine.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

// The published curve, 8 x H200, NCCL 2.27.7: bytes, algorithm GB/s.
const std::vector<std::pair<double, double>>& PublishedAllReduce() {
  static const auto* const rows = new std::vector<std::pair<double, double>>{
      {32 * kKiB, 0.82},    {64 * kKiB, 1.67},    {128 * kKiB, 3.27},
      {256 * kKiB, 6.71},   {512 * kKiB, 13.68},  {1 * kMiB, 22.82},
      {2 * kMiB, 36.87},    {4 * kMiB, 61.23},    {8 * kMiB, 88.87},
      {16 * kMiB, 125.65},  {32 * kMiB, 157.62},  {64 * kMiB, 198.01},
      {128 * kMiB, 229.67}, {256 * kMiB, 249.23}, {512 * kMiB, 257.31},
      {1 * kGiB, 264.90},   {4 * kGiB, 270.34},   {16 * kGiB, 275.58}};
  return *rows;
}

TEST(TimeCurve, ReproducesThePublishedAllReduceOfEightH200) {
  const Mesh mesh = *Mesh::Parse("model:8");
  const Machine machine = *Machine::Load("h200_x8");
  for (const auto& [bytes, rate] : PublishedAllReduce()) {
    const double published = bytes / rate / 1e9;
    const double seconds = machine.CollectiveSeconds(
        CollectiveKind::kAllReduce, mesh, {0}, static_cast<int64_t>(bytes));
    EXPECT_NEAR(seconds, published, 0.03 * published) << bytes;
  }
}

// Leaves out one point and evaluates the curve there. Its neighbours are then a
// factor of four apart, twice as far as in the file.
TEST(TimeCurve, PredictsAPointLeftOutOfThePublishedCurve) {
  const auto& rows = PublishedAllReduce();
  for (size_t left_out = 0; left_out < rows.size(); ++left_out) {
    std::vector<TimeCurve::Point> points;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i == left_out) continue;
      points.push_back({rows[i].first, rows[i].first / rows[i].second / 1e9});
    }
    const auto [bytes, rate] = rows[left_out];
    const double published = bytes / rate / 1e9;
    EXPECT_NEAR(TimeCurve(points).At(bytes), published, 0.05 * published)
        << bytes;
  }
}

TEST(TimeCurve, AFloorLastsUntilBytesTakeLonger) {
  // From 4 on the time is proportional to the size: at 2.5 it equals the floor.
  const TimeCurve curve({{1, 2.5}, {2, 2.5}, {4, 4}, {8, 8}});
  EXPECT_DOUBLE_EQ(curve.At(2), 2.5);
  EXPECT_DOUBLE_EQ(curve.At(2.4), 2.5);
  EXPECT_DOUBLE_EQ(curve.At(3), 3);
  EXPECT_DOUBLE_EQ(curve.At(4), 4);
  // Noisy points form a floor too.
  EXPECT_DOUBLE_EQ(TimeCurve({{1, 2.6}, {2, 2.4}, {4, 4}, {8, 8}}).At(2.4),
                   2.5);
  // If the time grows more slowly than that, it starts to rise at the end of
  // the floor, without a jump.
  const TimeCurve slow({{1, 1}, {2, 1}, {4, 4}, {8, 5}});
  EXPECT_NEAR(slow.At(2.0001), 1, 1e-3);
  // A single point is not a floor, and there is no law after the last but one.
  EXPECT_DOUBLE_EQ(TimeCurve({{2, 2}, {4, 4}, {8, 64}}).At(3), 3);
  EXPECT_NEAR(TimeCurve({{1, 2}, {4, 2}, {16, 4}}).At(8),
              (8.0 / 3 + std::sqrt(8)) / 2, 1e-12);
}

// Random curves are non-decreasing and pass through their points.
TEST(TimeCurve, IsContinuousAndNonDecreasing) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> factor(1.5, 3);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<TimeCurve::Point> points = {{1, 1}};
    while (points.size() < 6) {
      const double size = points.back().size * factor(random);
      const bool rises = random() % 2 == 0;
      points.push_back(
          {size, points.back().seconds * (rises ? factor(random) : 1)});
    }
    const TimeCurve curve(points);
    double before = curve.At(points[0].size);
    for (double size = 1; size < points.back().size; size *= 1.001) {
      const double seconds = curve.At(size);
      EXPECT_GE(seconds, before * (1 - 1e-12)) << trial;
      EXPECT_LE(seconds, before * 1.01) << trial;
      before = seconds;
    }
    for (const TimeCurve::Point& point : points) {
      EXPECT_NEAR(curve.At(point.size), point.seconds, 1e-9 * point.seconds);
    }
  }
}

}  // namespace
}  // namespace mtf
