// SPDX-License-Identifier: Apache-2.0
//
// Measures durations over a range of sizes, on all ranks together.
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

// Measures `curves` curves in `seconds`. All ranks must make the same calls.
// They agree on every duration, so they take the same decisions.
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

  // The median duration of `run` on the slowest rank, from about `allowance`
  // seconds of repetitions. `prepare` runs before each and is not timed.
  absl::StatusOr<double> Median(const std::function<void()>& prepare,
                                const std::function<absl::Status()>& run,
                                double allowance);

  // Measures at `sizes` until this curve's share of the time is used up: both
  // ends first, then the size that halves the widest gap, so that less time
  // makes the curve coarser but not shorter. Sizes are bytes, or sides of
  // matrices.
  using Measure =
      std::function<absl::StatusOr<double>(double size, double allowance)>;
  enum Sizes { kBytes, kSides };
  absl::StatusOr<std::vector<CurvePoint>> Curve(
      const std::string& name, Sizes unit, const std::vector<double>& sizes,
      const Measure& measure);

 private:
  using Clock = std::chrono::steady_clock;

  // Replaces each element by its maximum over all ranks.
  absl::Status Agree(std::vector<float>& values);
  absl::Status Once(const std::function<void()>& prepare,
                    const std::function<absl::Status()>& run, float& seconds);

  Communicator& communicator_;
  const Communicator::Group& group_;
  const double share_;  // seconds for each curve
  const std::function<void(absl::string_view)> progress_;
  const Clock::time_point begin_;
  int curve_ = 0;  // number of curves begun
};

}  // namespace mtf

#endif  // TOOLS_CURVE_TIMER_H_
