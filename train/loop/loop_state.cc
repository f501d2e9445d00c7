// SPDX-License-Identifier: Apache-2.0
#include "train/loop/loop_state.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

bool ParseText(const std::string& text, int64_t& value) {
  return absl::SimpleAtoi(text, &value);
}
bool ParseText(const std::string& text, double& value) {
  return absl::SimpleAtod(text, &value);
}

// Reads the number called `name`, if there is one.
template <class Number>
absl::Status ReadSaved(const TrainingStore::Extra& extra, const char* name,
                       Number& value) {
  const auto found = extra.find(absl::StrCat("loop/", name));
  if (found == extra.end() || ParseText(found->second, value)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("the saved \"", found->first,
                                          "\" is ", Quoted(found->second),
                                          ", not a number"));
}

std::string AllBits(double value) { return absl::StrFormat("%.17g", value); }

}  // namespace

double LoopState::SmoothLoss(int64_t done) const {
  if (done < steps) {
    return watch.MeanOfLast(static_cast<size_t>((done + 9) / 10));
  }
  return late_steps == 0 ? 0 : late_losses / static_cast<double>(late_steps);
}

void LoopState::SetSteps(int64_t of_run, int64_t done) {
  if (steps == of_run) return;
  steps = of_run;
  late_steps = std::min(std::max<int64_t>(done - FirstLateStep(), 0),
                        static_cast<int64_t>(watch.size()));
  late_losses = watch.MeanOfLast(static_cast<size_t>(late_steps)) *
                static_cast<double>(late_steps);
}

void LoopState::AddTo(TrainingStore::Extra& extra) const {
  extra["loop/batch"] = absl::StrCat(batch);
  extra["loop/left_out"] = absl::StrJoin(left_out, " ");
  extra["loop/loss"] = AllBits(loss);
  extra["loop/steps"] = absl::StrCat(steps);
  extra["loop/late_losses"] = AllBits(late_losses);
  extra["loop/late_steps"] = absl::StrCat(late_steps);
  extra["loop/best_value"] = AllBits(best_value);
  extra["loop/best_step"] = absl::StrCat(best_step);
  extra["loop/not_better"] = absl::StrCat(not_better);
  extra["loop/losses"] = watch.State();
}

absl::Status LoopState::SetFrom(const TrainingStore::Extra& extra,
                                int64_t step) {
  batch = step;
  MTF_RETURN_IF_ERROR(ReadSaved(extra, "batch", batch));
  MTF_RETURN_IF_ERROR(ReadSaved(extra, "loss", loss));
  MTF_RETURN_IF_ERROR(ReadSaved(extra, "steps", steps));
  MTF_RETURN_IF_ERROR(ReadSaved(extra, "late_losses", late_losses));
  MTF_RETURN_IF_ERROR(ReadSaved(extra, "late_steps", late_steps));
  MTF_RETURN_IF_ERROR(ReadSaved(extra, "best_value", best_value));
  MTF_RETURN_IF_ERROR(ReadSaved(extra, "best_step", best_step));
  MTF_RETURN_IF_ERROR(ReadSaved(extra, "not_better", not_better));
  left_out.clear();
  const auto skipped = extra.find("loop/left_out");
  if (skipped != extra.end()) {
    for (const absl::string_view item :
         absl::StrSplit(skipped->second, ' ', absl::SkipEmpty())) {
      int64_t number = 0;
      if (!absl::SimpleAtoi(item, &number)) {
        return absl::DataLossError(
            absl::StrCat("the saved \"loop/left_out\" has ", Quoted(item)));
      }
      left_out.insert(number);
    }
  }
  const auto losses = extra.find("loop/losses");
  return losses == extra.end() ? absl::OkStatus()
                               : watch.SetState(losses->second);
}

}  // namespace mtf::train
