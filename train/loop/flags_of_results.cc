// SPDX-License-Identifier: Apache-2.0
#include "train/loop/flags_of_results.h"

#include <set>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/string_view.h"
#include "train/loop/parse_flags.h"

namespace mtf::train {

std::map<std::string, std::string> FlagsOfResults() {
  static const std::set<absl::string_view>& only_how =
      *new std::set<absl::string_view>{"backend",
                                       "best",
                                       "budget",
                                       "checkpoint_dir",
                                       "collective_timeout",
                                       "dry_run",
                                       "dump_program",
                                       "eval_every",
                                       "events",
                                       "explain",
                                       "explain_all_changes",
                                       "explain_file",
                                       "explain_request",
                                       "fall_back",
                                       "flagfile",
                                       "fromenv",
                                       "histograms_every",
                                       "histograms_of",
                                       "keep",
                                       "layout",
                                       "layout_file",
                                       "log_json",
                                       "machine",
                                       "mesh_shape",
                                       "on_non_finite",
                                       "on_spike",
                                       "patience",
                                       "peak_of",
                                       "prompt",
                                       "readers",
                                       "resume",
                                       "sample_bytes",
                                       "sample_tokens",
                                       "sample_every",
                                       "save_every",
                                       "search",
                                       "spike_deviations",
                                       "steps",
                                       "strict_layout",
                                       "temperature",
                                       "threads",
                                       "trace",
                                       "trace_steps",
                                       "tryfromenv",
                                       "undefok"};
  std::map<std::string, std::string> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (only_how.contains(name) ||
        (flag->CurrentValue() == flag->DefaultValue() && !FlagIsGiven(name))) {
      continue;
    }
    flags[std::string(name)] = flag->CurrentValue();
  }
  return flags;
}

}  // namespace mtf::train
