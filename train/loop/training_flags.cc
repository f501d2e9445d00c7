// SPDX-License-Identifier: Apache-2.0
#include "train/loop/training_flags.h"

#include <cmath>
#include <initializer_list>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "planning/machine/machine.h"
#include "train/loop/checkpoint_store.h"
#include "train/loop/flag_types.h"
#include "train/loop/flags_of_results.h"
#include "train/loop/parse_flags.h"
#include "train/loop/peak_share.h"
#include "train/loop/run_main.h"

namespace mtf::train {

// The value of --resume.
struct ResumeFlag {
  Resume kind = Resume::kAuto;
  int64_t step = 0;
};
bool AbslParseFlag(absl::string_view text, ResumeFlag* flag,
                   std::string* error) {
  flag->step = 0;
  if (text == "auto") {
    flag->kind = Resume::kAuto;
  } else if (text == "never") {
    flag->kind = Resume::kNever;
  } else if (text == "must") {
    flag->kind = Resume::kMust;
  } else if (absl::SimpleAtoi(text, &flag->step) && flag->step >= 0) {
    flag->kind = Resume::kStep;
  } else {
    *error = "auto, never, must or the number of a step";
    return false;
  }
  return true;
}
std::string AbslUnparseFlag(ResumeFlag flag) {
  switch (flag.kind) {
    case Resume::kAuto:
      return "auto";
    case Resume::kNever:
      return "never";
    case Resume::kMust:
      return "must";
    case Resume::kStep:
      break;
  }
  return absl::StrCat(flag.step);
}

// The values of --on_non_finite and --on_spike.
bool AbslParseFlag(absl::string_view text, Remedy* flag, std::string* error) {
  for (const auto& [name, remedy] : {std::pair{"report", Remedy::kReport},
                                     {"stop", Remedy::kStop},
                                     {"skip", Remedy::kSkip},
                                     {"roll_back", Remedy::kRollBack}}) {
    if (text != name) continue;
    *flag = remedy;
    return true;
  }
  *error = "report, stop, skip or roll_back";
  return false;
}
std::string AbslUnparseFlag(Remedy flag) {
  constexpr const char* kNames[] = {"report", "stop", "skip", "roll_back"};
  return kNames[static_cast<int>(flag)];
}

}  // namespace mtf::train

using mtf::train::Count;
using mtf::train::Remedy;
using mtf::train::Size;

ABSL_FLAG(std::string, checkpoint_dir, "",
          "the folder for checkpoints, from which a later run resumes; empty: "
          "nothing is saved");
ABSL_FLAG(Count, save_every, 0,
          "steps between checkpoints; 0: only at the end, after an evaluation "
          "that is the best, and after SIGTERM or SIGUSR1");
ABSL_FLAG(Size, keep, 2, "checkpoints to keep, besides the best");
ABSL_FLAG(mtf::train::ResumeFlag, resume, {},
          "auto: from the newest checkpoint, if there is one; must: from the "
          "newest; never: begin, in a folder without any; or the number of a "
          "step");
ABSL_FLAG(bool, fall_back, false,
          "if the checkpoint to resume from is damaged, resumes from the "
          "newest undamaged one before it; otherwise that is an error");
ABSL_FLAG(Count, readers, 1,
          "threads that read the data of the next steps while a step runs; 0: "
          "each step reads its data first");
ABSL_FLAG(Count, eval_every, 0,
          "steps between evaluations on held-out data; 0: none, or with --best "
          "or --patience one for each checkpoint");
ABSL_FLAG(std::string, best, "loss",
          "the metric that says which evaluation is the best; with a + in "
          "front, higher is better");
ABSL_FLAG(Count, patience, 0,
          "evaluations in a row without a better one after which training "
          "ends; 0: it does not end early");
ABSL_FLAG(Count, sample_every, 0, "steps between samples; 0: none");
ABSL_FLAG(std::string, events, "",
          "writes curves and samples for TensorBoard to this folder");
ABSL_FLAG(Count, histograms_every, 0,
          "steps between histograms of parameters in --events; 0: none");
ABSL_FLAG(std::string, histograms_of, "",
          "the parameters of --histograms_every: names, or scopes such as "
          "layer_*/attention, with commas; empty: all");
ABSL_FLAG(Remedy, on_non_finite, Remedy::kStop,
          "what to do about a loss that is NaN or infinite: stop; skip the "
          "batch, which needs an optimizer that leaves out the update; or "
          "roll_back to the last checkpoint and leave out the batch");
ABSL_FLAG(Remedy, on_spike, Remedy::kReport,
          "what to do about a loss over the limit of --spike_deviations: "
          "report, stop, or roll_back");
ABSL_FLAG(double, spike_deviations, 0,
          "a loss is a spike if it is over the mean of the last 100 by so many "
          "standard deviations; 0: spikes are not looked for");
ABSL_FLAG(std::string, peak_of, "",
          "shows the speed as a share of the peak of this machine: a preset, "
          "this_host or a machine file");

namespace mtf::train {
namespace {

absl::Status LoopNeeds(absl::string_view flag, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " is given, but ", what));
}

// Only some programs have a flag for this data.
absl::Status LoopNeedsHeldOutData(absl::string_view flag) {
  const bool has_flag = absl::FindCommandLineFlag("eval_data") != nullptr;
  return LoopNeeds(
      flag,
      absl::StrCat("there is no held-out data to evaluate",
                   has_flag ? DetailLine("help", "set --eval_data") : ""));
}

// Adds the plan of evaluations and samples.
absl::Status AddEvaluation(Training& training) {
  training.evaluate.every = absl::GetFlag(FLAGS_eval_every);
  training.evaluate.patience = absl::GetFlag(FLAGS_patience);
  const std::string best = absl::GetFlag(FLAGS_best);
  absl::string_view name = best;
  training.evaluate.higher_is_better = absl::ConsumePrefix(&name, "+");
  training.evaluate.best = std::string(name);
  const bool has_data = !training.evaluate.evaluation.metrics.empty();
  if (training.evaluate.every > 0 && !has_data) {
    return LoopNeedsHeldOutData("eval_every");
  }
  for (const char* flag : {"patience", "best"}) {
    if (training.evaluate.every > 0 || !FlagIsGiven(flag)) continue;
    if (absl::GetFlag(FLAGS_checkpoint_dir).empty()) {
      return LoopNeeds(flag, "not --eval_every");
    }
    if (!has_data) {
      return LoopNeedsHeldOutData(flag);
    }
    // The best checkpoint is one of those that are saved: evaluate each.
    const int64_t saves = absl::GetFlag(FLAGS_save_every);
    training.evaluate.every = saves > 0 ? saves : training.steps;
  }
  training.sample_every = absl::GetFlag(FLAGS_sample_every);
  if (training.sample_every > 0 && training.sample == nullptr) {
    return LoopNeeds("sample_every", "this program makes no samples");
  }
  return absl::OkStatus();
}

absl::Status AddGuard(Training& training) {
  training.guard.non_finite = absl::GetFlag(FLAGS_on_non_finite);
  training.guard.spike = absl::GetFlag(FLAGS_on_spike);
  training.guard.spike_deviations = absl::GetFlag(FLAGS_spike_deviations);
  const double deviations = training.guard.spike_deviations;
  if (!std::isfinite(deviations) || deviations < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("flag --spike_deviations is ", deviations,
                     ", not a finite number of at least 0 (0: spikes are "
                     "not looked for)"));
  }
  if (deviations == 0 && FlagIsGiven("on_spike")) {
    return LoopNeeds("on_spike", "not --spike_deviations");
  }
  return absl::OkStatus();
}

absl::Status AddHistograms(Training& training) {
  HistogramPlan& plan = training.histograms;
  plan.every = absl::GetFlag(FLAGS_histograms_every);
  plan.parameters = absl::StrSplit(absl::GetFlag(FLAGS_histograms_of),
                                   absl::ByAnyChar(", ;"), absl::SkipEmpty());
  if (plan.every > 0 && training.events.empty()) {
    return LoopNeeds("histograms_every", "not --events");
  }
  if (plan.every == 0 && FlagIsGiven("histograms_of")) {
    return LoopNeeds("histograms_of", "not --histograms_every");
  }
  return absl::OkStatus();
}

absl::Status AddPeak(Session& session, Training& training) {
  const std::string name = absl::GetFlag(FLAGS_peak_of);
  if (name.empty()) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const Machine machine, Machine::Load(name));
  MTF_ASSIGN_OR_RETURN(
      const PeakShare share,
      PeakShareOf(session,
                  {.fetches = {training.loss}, .updates = {training.update}},
                  machine));
  training.flops_per_step = share.flops_per_step;
  training.peak_flops = share.peak_flops;
  return absl::OkStatus();
}

void ShowNotice(const std::string& notice) {
  Say(absl::StrCat("note: ", notice));
}

// A flag that differs from that of the state that a run resumes from.
struct ChangedFlag {
  std::string name, now, before;
};

std::vector<ChangedFlag> ChangedFlags(const TrainingStore::Extra& saved) {
  const std::map<std::string, std::string> flags = FlagsOfResults();
  std::set<std::string> names;
  for (const auto& [name, value] : flags) names.insert(name);
  for (const auto& [key, value] : saved) {
    absl::string_view name = key;
    if (absl::ConsumePrefix(&name, "flags/")) names.emplace(name);
  }
  std::vector<ChangedFlag> changed;
  for (const std::string& name : names) {
    const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
    if (flag == nullptr) continue;  // of another program
    const auto found = saved.find(absl::StrCat("flags/", name));
    const std::string before =
        found != saved.end() ? found->second : flag->DefaultValue();
    if (before == flag->CurrentValue()) continue;
    changed.push_back({name, flag->CurrentValue(), before});
  }
  return changed;
}

void ReportChangedFlags(const TrainingStore::Extra& saved) {
  for (const ChangedFlag& flag : ChangedFlags(saved)) {
    Say(absl::StrCat("note: --", flag.name, " is ", Quoted(flag.now),
                     "; it was ", Quoted(flag.before),
                     " when the checkpoint was saved"));
  }
}

// How to resume from the state of a model that other flags describe.
std::string HelpOfChangedFlags(const TrainingStore::Extra& saved) {
  std::vector<std::string> flags;
  for (const ChangedFlag& flag : ChangedFlags(saved)) {
    flags.push_back(absl::StrCat("--", flag.name, " is ", Quoted(flag.now),
                                 " but was ", Quoted(flag.before)));
  }
  if (flags.empty()) return "";
  return absl::StrCat(
      "give the flags of the model as when the checkpoint was saved: ",
      absl::StrJoin(flags, ", "));
}

absl::StatusOr<std::unique_ptr<CheckpointStore>> AddSaving(Session& session,
                                                           Training& training) {
  const std::string folder = absl::GetFlag(FLAGS_checkpoint_dir);
  if (folder.empty()) {
    for (const char* flag : {"save_every", "keep", "resume", "fall_back"}) {
      if (FlagIsGiven(flag)) return LoopNeeds(flag, "not --checkpoint_dir");
    }
    return nullptr;
  }
  MTF_ASSIGN_OR_RETURN(
      std::unique_ptr<CheckpointStore> store,
      CheckpointStore::Open(
          session, folder,
          {.keep = absl::GetFlag(FLAGS_keep),
           .best = training.evaluate.every == 0         ? BestMetric::kNone
                   : training.evaluate.higher_is_better ? BestMetric::kHighest
                                                        : BestMetric::kLowest,
           .fall_back = absl::GetFlag(FLAGS_fall_back),
           .on_notice = &ShowNotice,
           .on_restore = &ReportChangedFlags,
           .help_of_other_model = &HelpOfChangedFlags}));
  training.saving.store = store.get();
  training.saving.every = absl::GetFlag(FLAGS_save_every);
  training.saving.resume = absl::GetFlag(FLAGS_resume).kind;
  training.saving.step = absl::GetFlag(FLAGS_resume).step;
  for (const auto& [name, value] : FlagsOfResults()) {
    training.saving.extra[absl::StrCat("flags/", name)] = value;
  }
  return store;
}

}  // namespace

bool SkipsNonFinite() {
  return absl::GetFlag(FLAGS_on_non_finite) == Remedy::kSkip;
}

absl::StatusOr<TrainingResult> TrainWithFlags(Session& session,
                                              Training training) {
  MTF_RETURN_IF_ERROR(AddEvaluation(training));
  MTF_RETURN_IF_ERROR(AddGuard(training));
  training.events = absl::GetFlag(FLAGS_events);
  MTF_RETURN_IF_ERROR(AddHistograms(training));
  training.reading.threads = absl::GetFlag(FLAGS_readers);
  MTF_RETURN_IF_ERROR(AddPeak(session, training));
  MTF_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointStore> store,
                       AddSaving(session, training));
  return Train(session, training);
}

}  // namespace mtf::train
