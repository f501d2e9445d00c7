// SPDX-License-Identifier: Apache-2.0
#include "planning/machine/machine_curves.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace mtf {
namespace {

// The index of the last point up to `size`, which is within the ends.
template <class Point>
size_t Before(const std::vector<Point>& points, double size) {
  const auto above = std::upper_bound(
      points.begin(), points.end(), size,
      [](double value, const Point& point) { return value < point.size; });
  return static_cast<size_t>(above - points.begin()) - 1;
}

// Pool adjacent violators: the non-decreasing times with the least sum of
// squared differences to the measured ones.
std::vector<TimeCurve::Point> NonDecreasing(
    const std::vector<TimeCurve::Point>& points) {
  std::vector<std::pair<double, int>> pools;  // mean, count
  for (const TimeCurve::Point& point : points) {
    pools.emplace_back(point.seconds, 1);
    while (pools.size() > 1 &&
           pools[pools.size() - 2].first > pools.back().first) {
      const auto [mean, count] = pools.back();
      pools.pop_back();
      auto& [first, all] = pools.back();
      first = (first * all + mean * count) / (all + count);
      all += count;
    }
  }
  std::vector<TimeCurve::Point> smooth = points;
  size_t i = 0;
  for (const auto& [mean, count] : pools) {
    for (int j = 0; j < count; ++j) smooth[i++].seconds = mean;
  }
  return smooth;
}

}  // namespace

double ShareCurve::At(double size) const {
  if (points.empty()) return 1;
  if (size <= points.front().size) return points.front().share;
  if (size >= points.back().size) return points.back().share;
  const size_t i = Before(points, size);
  const Point &a = points[i], &b = points[i + 1];
  const double t = std::log(size / a.size) / std::log(b.size / a.size);
  return a.share + t * (b.share - a.share);
}

TimeCurve::TimeCurve(std::vector<Point> points)
    : points_(std::move(points)), smooth_(NonDecreasing(points_)) {}

double TimeCurve::At(double size) const {
  if (size <= smooth_.front().size) return smooth_.front().seconds;
  if (size >= smooth_.back().size) {
    return smooth_.back().seconds * (size / smooth_.back().size);
  }
  const size_t i = Before(smooth_, size);
  const Point &a = smooth_[i], &b = smooth_[i + 1];
  // The line and the power law through two points.
  const auto line = [&](const Point& p, const Point& q) {
    return p.seconds +
           (q.seconds - p.seconds) * (size - p.size) / (q.size - p.size);
  };
  const auto power = [&](const Point& p, const Point& q) {
    return p.seconds *
           std::pow(q.seconds / p.seconds,
                    std::log(size / p.size) / std::log(q.size / p.size));
  };
  const double mean = (line(a, b) + power(a, b)) / 2;
  const bool after_floor = i > 0 && smooth_[i - 1].seconds == a.seconds;
  if (!after_floor || i + 2 >= smooth_.size()) return mean;
  return std::max(a.seconds, std::min(mean, power(b, smooth_[i + 2])));
}

}  // namespace mtf
