// SPDX-License-Identifier: Apache-2.0
//
// How long something takes over a range of sizes, told by all ranks together.
#ifndef TOOLS_CURVE_TIMER_H_
#define TOOLS_CURVE_TIMER_H_

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "backends/communicator.h"

namespace mtf {

struct CurvePoint {
  double size = 0;  // side of a product, bytes of a copy or a collective
  double seconds = 0;
};

// Measures `curves` curves in `seconds`. All ranks make the same calls and
// agree on every time, so that they take the same decisions.
class CurveTimer {
 public:
  CurveTimer(Communicator& communicator, const Communicator::Group& group,
             double seconds, int curves,
             std::function<void(absl::string_view)> progress)
      : communicator_(communicator),
        group_(group),
        share_(seconds / curves),
        progress_(std::move(progress)),
        begin_(Clock::now()) {}

  // What one run takes in the median of the slowest rank, in about `allowance`
  // seconds in all. `prepare` is not timed.
  absl::StatusOr<double> Median(const std::function<void()>& prepare,
                                const std::function<absl::Status()>& run,
                                double allowance);

  // Measures at `sizes` until this curve's share of the time is used up: both
  // ends first, then what halves the widest gap, so that less time makes the
  // curve coarser, not shorter. Sizes are bytes, or sides of products.
  using Measure =
      std::function<absl::StatusOr<double>(double size, double allowance)>;
  enum Sizes { kBytes, kSides };
  absl::StatusOr<std::vector<CurvePoint>> Curve(
      const std::string& name, Sizes unit, const std::vector<double>& sizes,
      const Measure& measure);

 private:
  using Clock = std::chrono::steady_clock;

  // Of each place the largest of all ranks.
  absl::Status Agree(std::vector<float>& values);
  absl::Status Once(const std::function<void()>& prepare,
                    const std::function<absl::Status()>& run, float& seconds);

  Communicator& communicator_;
  const Communicator::Group& group_;
  const double share_;  // of the time, for each curve
  const std::function<void(absl::string_view)> progress_;
  const Clock::time_point begin_;
  int curve_ = 0;  // how many have begun
};

}  // namespace mtf

#endif  // TOOLS_CURVE_TIMER_H_
