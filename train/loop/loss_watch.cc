// SPDX-License-Identifier: Apache-2.0
#include "train/loop/loss_watch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"

namespace mtf::train {

bool LossWatch::IsSpike(double loss) const { return loss > Limit(); }

double LossWatch::Limit() const {
  if (options_.deviations <= 0 || losses_.size() < kLeastLosses) {
    return std::numeric_limits<double>::infinity();
  }
  double mean = 0, square = 0;
  for (const double loss : losses_) {
    mean += loss / static_cast<double>(losses_.size());
  }
  for (const double loss : losses_) square += (loss - mean) * (loss - mean);
  return mean + options_.deviations *
                    std::sqrt(square / static_cast<double>(losses_.size()));
}

void LossWatch::Add(double loss) {
  losses_.push_back(loss);
  if (losses_.size() > options_.window) losses_.pop_front();
}

double LossWatch::MeanOfLast(size_t count) const {
  count = std::min(count, losses_.size());
  if (count == 0) return 0;
  double sum = 0;
  for (size_t i = losses_.size() - count; i < losses_.size(); ++i) {
    sum += losses_[i];
  }
  return sum / static_cast<double>(count);
}

std::string LossWatch::State() const {
  std::string text;
  for (const double loss : losses_) {
    // 17 digits are every bit of a double.
    absl::StrAppend(&text, text.empty() ? "" : " ",
                    absl::StrFormat("%.17g", loss));
  }
  return text;
}

absl::Status LossWatch::SetState(absl::string_view text) {
  losses_.clear();
  for (const absl::string_view item :
       absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    double loss = 0;
    if (!absl::SimpleAtod(item, &loss) || !std::isfinite(loss)) {
      losses_.clear();
      return absl::InvalidArgumentError(
          absl::StrCat("the saved losses contain ", Quoted(item)));
    }
    Add(loss);
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
