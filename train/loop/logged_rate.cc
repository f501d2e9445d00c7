// SPDX-License-Identifier: Apache-2.0
#include "train/loop/logged_rate.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/observe.h"

namespace mtf::train {
namespace {

constexpr char kRateName[] = "learning_rate";

}  // namespace

nn::Schedule LoggedRate(nn::Schedule schedule) {
  return nn::Schedule([schedule = std::move(schedule)](Tensor step) {
    return ScalarSummary(kRateName, schedule.At(step));
  });
}

std::optional<double> TakeLearningRate(
    std::map<std::string, double>& summaries) {
  auto rate = summaries.end();
  for (auto i = summaries.begin(); i != summaries.end(); ++i) {
    if (i->first != kRateName &&
        !absl::EndsWith(i->first, absl::StrCat("/", kRateName))) {
      continue;
    }
    if (rate != summaries.end()) return std::nullopt;
    rate = i;
  }
  if (rate == summaries.end()) return std::nullopt;
  const double value = rate->second;
  summaries.erase(rate);
  return value;
}

}  // namespace mtf::train
