// SPDX-License-Identifier: Apache-2.0
//
// The two kinds of measured curves in a machine file.
#ifndef PLANNING_MACHINE_MACHINE_CURVES_H_
#define PLANNING_MACHINE_MACHINE_CURVES_H_

#include <vector>

namespace mtf {

// Which part of its peak a unit reaches at a size. Between points it follows
// the logarithm of the size, beyond the ends it stays; without points it is 1.
struct ShareCurve {
  struct Point {
    double size = 0;
    double share = 1;
  };
  std::vector<Point> points;  // by rising size

  double At(double size) const;
};

// Seconds by size, measured. Never falling in size: neighbours that say
// otherwise are noise and stand for their mean (isotonic regression).
//
// Between two points it is the mean of a straight line, which is right where
// bandwidth rules, and of a power law, which is right where the protocol
// changes with the size. Behind a floor, points that take equally long, it is
// the power law of the next two points where that is less: time stays until
// bytes take longer. Left out one at a time, the points of the published
// all-reduce curve of eight H200 come back within 4.2 %; a line alone misses by
// 6 %, a power law by 6 %, either by 10 % at the end of the floor. Below the
// first point it stays, above the last it keeps its bytes per second.
class TimeCurve {
 public:
  struct Point {
    double size = 0;
    double seconds = 0;
  };
  TimeCurve() = default;
  // `points` by rising size, at least two, or none.
  explicit TimeCurve(std::vector<Point> points);

  bool empty() const { return points_.empty(); }
  const std::vector<Point>& points() const { return points_; }  // as measured
  double At(double size) const;
  // The time of the smallest message.
  double floor() const { return smooth_.front().seconds; }

 private:
  std::vector<Point> points_;
  std::vector<Point> smooth_;
};

}  // namespace mtf

#endif  // PLANNING_MACHINE_MACHINE_CURVES_H_
