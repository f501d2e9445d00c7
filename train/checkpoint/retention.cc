// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/retention.h"

#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace mtf::train {

absl::Status Retention::Load() {
  MTF_ASSIGN_OR_RETURN(const std::vector<CheckpointInfo> infos,
                       Checkpointer::List(folder_, &files_));
  for (const CheckpointInfo& info : infos) {
    if (info.status.ok()) metrics_[info.step] = info.metric;
  }
  return absl::OkStatus();
}

// The step with the best metric; of equal ones the first.
std::optional<int64_t> Retention::BestStep() const {
  if (best_ == BestMetric::kNone) return std::nullopt;
  std::optional<int64_t> best_step;
  double best = 0;
  for (const auto& [step, metric] : metrics_) {
    if (!metric.has_value()) continue;
    const double loss = best_ == BestMetric::kLowest ? *metric : -*metric;
    if (best_step.has_value() && loss >= best) continue;
    best_step = step;
    best = loss;
  }
  return best_step;
}

void Retention::Add(const Manifest& manifest) {
  metrics_[manifest.step] = manifest.metric;
  if (keep_ == 0) return;
  std::set<int64_t> kept = {manifest.step};
  if (const std::optional<int64_t> best = BestStep()) kept.insert(*best);
  int newest = 0;
  for (auto i = metrics_.rbegin(); i != metrics_.rend() && newest < keep_;
       ++i, ++newest) {
    kept.insert(i->first);
  }
  for (auto i = metrics_.begin(); i != metrics_.end();) {
    const int64_t step = i->first;
    i = kept.contains(step) ? std::next(i) : metrics_.erase(i);
    if (kept.contains(step)) continue;
    const absl::Status removed = RemoveCheckpoint(files_, folder_, step);
    if (!removed.ok()) {
      notices_.push_back(absl::StrCat("the old checkpoint of step ", step,
                                      " was not removed: ", removed.message()));
    }
  }
}

}  // namespace mtf::train
