// SPDX-License-Identifier: Apache-2.0
#include "tools/curve_timer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "mtf/status.h"
#include "planning/machine/units.h"

namespace mtf {
namespace {

// The points that a curve gets however long they take: a table needs two.
constexpr size_t kFewest = 2;
constexpr int kMostRepeats = 200;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

// The indices 0 to count - 1: both ends first, then the middle of each gap.
std::vector<size_t> EndsFirst(size_t count) {
  std::vector<size_t> order = {0};
  if (count > 1) order.push_back(count - 1);
  std::vector<std::pair<size_t, size_t>> gaps = {{0, count - 1}};
  for (size_t i = 0; i < gaps.size() && order.size() < count; ++i) {
    const auto [left, right] = gaps[i];
    const size_t middle = (left + right) / 2;
    if (middle == left) continue;
    order.push_back(middle);
    gaps.emplace_back(left, middle);
    gaps.emplace_back(middle, right);
  }
  return order;
}

}  // namespace

absl::Status CurveTimer::Agree(std::vector<float>& values) {
  std::vector<float> mine = values;
  return communicator_.AllReduce(
      group_,
      {{mine.data(), values.data(), static_cast<int64_t>(values.size())}},
      kFloat32, ReduceKind::kMax);
}

absl::StatusOr<double> CurveTimer::Median(
    const std::function<void()>& prepare,
    const std::function<absl::Status()>& run, double allowance) {
  std::vector<float> times(1);
  MTF_RETURN_IF_ERROR(Once(prepare, run, times[0]));  // warms up
  MTF_RETURN_IF_ERROR(Once(prepare, run, times[0]));
  MTF_RETURN_IF_ERROR(Agree(times));
  const double one = std::max(1e-7, static_cast<double>(times[0]));
  times.resize(static_cast<size_t>(
      std::clamp(allowance / one, 3.0, static_cast<double>(kMostRepeats))));
  for (float& time : times) {
    MTF_RETURN_IF_ERROR(Once(prepare, run, time));
  }
  MTF_RETURN_IF_ERROR(Agree(times));
  std::nth_element(times.begin(), times.begin() + times.size() / 2,
                   times.end());
  return std::max(1e-9, static_cast<double>(times[times.size() / 2]));
}

absl::Status CurveTimer::Once(const std::function<void()>& prepare,
                              const std::function<absl::Status()>& run,
                              float& seconds) {
  prepare();
  MTF_RETURN_IF_ERROR(communicator_.Barrier());
  const Clock::time_point begin = Clock::now();
  MTF_RETURN_IF_ERROR(run());
  seconds = static_cast<float>(SecondsSince(begin));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<CurvePoint>> CurveTimer::Curve(
    const std::string& name, Sizes unit, const std::vector<double>& sizes,
    const Measure& measure) {
  ++curve_;
  std::vector<CurvePoint> points;
  for (size_t index : EndsFirst(sizes.size())) {
    const double size = sizes[index];
    std::vector<float> elapsed = {static_cast<float>(SecondsSince(begin_))};
    MTF_RETURN_IF_ERROR(Agree(elapsed));
    if (points.size() >= kFewest && elapsed[0] > share_ * curve_) break;
    if (communicator_.rank() == 0 && progress_) {
      progress_(absl::StrFormat("%s, %s", name,
                                unit == kBytes
                                    ? FormatQuantity(size, Quantity::kBytes)
                                    : absl::StrCat("side ", size)));
    }
    MTF_ASSIGN_OR_RETURN(
        const double seconds,
        measure(size, share_ / static_cast<double>(sizes.size()) / 2));
    points.push_back({size, seconds});
  }
  std::sort(
      points.begin(), points.end(),
      [](const CurvePoint& a, const CurvePoint& b) { return a.size < b.size; });
  return points;
}

}  // namespace mtf
