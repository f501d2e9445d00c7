// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_LOOP_LOSS_WATCH_H_
#define TRAIN_LOOP_LOSS_WATCH_H_

#include <cstddef>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

// Finds spikes among the losses of successive steps: losses over the mean of
// the last `window` by more than `deviations` standard deviations. Of fewer
// than kLeastLosses it finds none.
//
//   LossWatch watch({.deviations = 6});
//   if (watch.IsSpike(loss)) ...
//   watch.Add(loss);
class LossWatch {
 public:
  static constexpr size_t kLeastLosses = 20;

  struct Options {
    double deviations = 0;  // 0: finds no spike
    size_t window = 100;
  };
  explicit LossWatch(Options options) : options_(options) {}

  bool IsSpike(double loss) const;
  // The loss from which on IsSpike is true; infinite if it never is.
  double Limit() const;
  // Adds a finite loss.
  void Add(double loss);

  size_t size() const { return losses_.size(); }
  // The mean of the last `count` losses, or of all if there are fewer; 0 of
  // none.
  double MeanOfLast(size_t count) const;

  // The window as text, with every bit of the losses, and back.
  // kInvalidArgument for text that is not a window.
  std::string State() const;
  absl::Status SetState(absl::string_view text);

 private:
  Options options_;
  std::deque<double> losses_;
};

}  // namespace mtf::train

#endif  // TRAIN_LOOP_LOSS_WATCH_H_
