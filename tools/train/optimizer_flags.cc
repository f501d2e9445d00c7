// SPDX-License-Identifier: Apache-2.0
#include "tools/train/optimizer_flags.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "nn/optimizers/adafactor.h"
#include "nn/optimizers/adam.h"
#include "nn/optimizers/lion.h"
#include "nn/optimizers/optimizer.h"
#include "nn/optimizers/parameter_groups.h"
#include "nn/optimizers/schedules.h"
#include "nn/optimizers/sgd.h"
#include "tools/train/model_flags.h"
#include "train/loop/flag_types.h"
#include "train/loop/flags.h"
#include "train/loop/logged_rate.h"

using mtf::train::Count;
using mtf::train::Fraction;
using mtf::train::Size;

ABSL_FLAG(std::string, optimizer, "adamw", "adamw, lion, adafactor or sgd");
ABSL_FLAG(std::string, schedule, "cosine",
          "of the learning rate after the warm-up: cosine, linear or constant");
ABSL_FLAG(Count, warmup_steps, 100, "updates until the full learning rate");
ABSL_FLAG(Fraction, final_rate, 0.05,
          "the learning rate at the end, as a part of the full one");
ABSL_FLAG(Fraction, weight_decay, 0.01, "decay of the parameters");
ABSL_FLAG(double, clip, 1.0, "the largest norm of the gradients; 0: any");
ABSL_FLAG(Size, accumulate, 1,
          "steps whose gradients are added up for an update");

ABSL_FLAG(std::string, train_only, "",
          "patterns of the parameters to train, by commas, such as "
          "'**/adapter'; the others are frozen. Empty: adapters and prompt if "
          "there are any, otherwise all");

namespace mtf::tools {
namespace {

// Freezes everything but the parameters of --train_only.
std::vector<nn::ParameterGroup> GroupsFromFlags() {
  std::string only = absl::GetFlag(FLAGS_train_only);
  if (only.empty()) {
    std::vector<std::string> added;
    if (!absl::GetFlag(FLAGS_adapters).empty()) added.push_back("**/adapter");
    if (absl::GetFlag(FLAGS_prompt_length) > 0) added.push_back("**/prompt");
    only = absl::StrJoin(added, ",");
  }
  if (only.empty()) return {};
  std::vector<nn::ParameterGroup> groups = {
      {.parameters = "**", .frozen = true}};
  for (const absl::string_view pattern : absl::StrSplit(only, ',')) {
    groups.push_back({.parameters = std::string(pattern), .frozen = false});
  }
  return groups;
}

absl::StatusOr<nn::Schedule> ScheduleFromFlags(int64_t updates) {
  const int64_t warmup = absl::GetFlag(FLAGS_warmup_steps);
  nn::Schedule schedule(absl::GetFlag(FLAGS_learning_rate));
  if (warmup > 0) schedule = schedule * nn::LinearWarmup(warmup);
  const std::string name = absl::GetFlag(FLAGS_schedule);
  const int64_t end = std::max(updates, warmup) + 1;
  const double last = absl::GetFlag(FLAGS_final_rate);
  if (name == "constant") return schedule;
  if (name == "cosine") return schedule * nn::CosineDecay(warmup, end, last);
  if (name == "linear") return schedule * nn::LinearDecay(warmup, end, last);
  return absl::NotFoundError(
      absl::StrCat("unknown schedule ", Quoted(name),
                   DetailLine("schedules", "cosine, linear, constant")));
}

// The options that these optimizers have in common.
template <class Options>
Options CommonFlags(const nn::Schedule& rate, bool skips) {
  Options options;
  options.learning_rate = rate;
  options.weight_decay = absl::GetFlag(FLAGS_weight_decay);
  options.max_gradient_norm = absl::GetFlag(FLAGS_clip);
  options.accumulate_steps = absl::GetFlag(FLAGS_accumulate);
  options.skip_non_finite = skips;
  options.groups = GroupsFromFlags();
  return options;
}

}  // namespace

absl::StatusOr<Tensor> MinimizeFromFlags(Tensor loss, int64_t steps,
                                         bool skips) {
  const int64_t updates = steps / absl::GetFlag(FLAGS_accumulate);
  MTF_ASSIGN_OR_RETURN(const nn::Schedule schedule, ScheduleFromFlags(updates));
  const nn::Schedule rate = train::LoggedRate(schedule);
  const std::string name = absl::GetFlag(FLAGS_optimizer);
  if (name == "adamw") {
    return nn::AdamW(CommonFlags<nn::AdamWOptions>(rate, skips)).Minimize(loss);
  }
  if (name == "lion") {
    return nn::Lion(CommonFlags<nn::LionOptions>(rate, skips)).Minimize(loss);
  }
  if (name == "adafactor") {
    return nn::Adafactor(CommonFlags<nn::AdafactorOptions>(rate, skips))
        .Minimize(loss);
  }
  if (name == "sgd") {
    return nn::Sgd(CommonFlags<nn::SgdOptions>(rate, skips)).Minimize(loss);
  }
  return absl::NotFoundError(
      absl::StrCat("unknown optimizer ", Quoted(name),
                   DetailLine("optimizers", "adamw, lion, adafactor, sgd")));
}

}  // namespace mtf::tools
