// SPDX-License-Identifier: Apache-2.0
//
// The two kinds of curves in a machine file.
#ifndef PLANNING_MACHINE_MACHINE_CURVES_H_
#define PLANNING_MACHINE_MACHINE_CURVES_H_

#include <vector>

namespace mtf {

// The share of its peak that a unit reaches, by size. Linear in the logarithm
// of the size between points, constant beyond the ends; 1 without points.
struct ShareCurve {
  struct Point {
    double size = 0;
    double share = 1;
  };
  std::vector<Point> points;  // in increasing order of size

  double At(double size) const;
};

// Measured seconds by size. Non-decreasing: decreasing neighbours are noise and
// are replaced by their mean (isotonic regression).
//
// Between two points the curve is the mean of a line, which fits where
// bandwidth dominates, and of a power law, which fits where the protocol
// changes with the size. After a floor, that is points with equal times, it is
// the power law of the next two points if that is less: the time is constant
// until the transfer takes longer. Below the first point the time is constant,
// above the last the bytes per second are.
//
// Leave-one-out on the published all-reduce curve of eight H200: the error is
// at most 4.2 %; with a line alone or a power law alone 6 %, and 10 % at the
// end of the floor.
class TimeCurve {
 public:
  struct Point {
    double size = 0;
    double seconds = 0;
  };
  TimeCurve() = default;
  // `points` in increasing order of size: at least two, or none.
  explicit TimeCurve(std::vector<Point> points);

  bool empty() const { return points_.empty(); }
  const std::vector<Point>& points() const { return points_; }  // as measured
  double At(double size) const;
  // The time of the smallest size.
  double floor() const { return smooth_.front().seconds; }

 private:
  std::vector<Point> points_;
  std::vector<Point> smooth_;
};

}  // namespace mtf

#endif  // PLANNING_MACHINE_MACHINE_CURVES_H_
