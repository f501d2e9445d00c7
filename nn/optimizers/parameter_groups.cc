// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/parameter_groups.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "mtf/scope_pattern.h"
#include "mtf/status.h"
#include "ops/checks.h"

namespace mtf::nn {
bool MatchesAny(const std::vector<std::string>& patterns,
                absl::string_view name) {
  return std::any_of(
      patterns.begin(), patterns.end(),
      [&](const std::string& pattern) { return ScopeMatches(pattern, name); });
}

namespace internal {

ParameterSettings SettingsOf(const std::vector<ParameterGroup>& groups,
                             absl::string_view name) {
  ParameterSettings settings;
  for (size_t i = 0; i < groups.size(); ++i) {
    const ParameterGroup& group = groups[i];
    if (!ScopeMatches(group.parameters, name)) continue;
    if (group.learning_rate) settings.rate_group = static_cast<int>(i);
    if (group.weight_decay) settings.weight_decay = group.weight_decay;
    settings.frozen = group.frozen.value_or(settings.frozen);
  }
  return settings;
}

absl::Status CheckGroups(const std::vector<ParameterGroup>& groups) {
  for (const ParameterGroup& group : groups) {
    const std::string what =
        absl::StrCat("of the group \"", group.parameters, "\"");
    if (group.weight_decay) {
      MTF_RETURN_IF_ERROR(mtf::internal::CheckNotNegative(
          absl::StrCat(".weight_decay ", what), *group.weight_decay));
    }
    if (!group.learning_rate && !group.weight_decay && !group.frozen) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the group of parameters \"", group.parameters,
          "\" sets nothing\n  help     give it a .learning_rate, a "
          ".weight_decay or .frozen"));
    }
  }
  return absl::OkStatus();
}

}  // namespace internal
}  // namespace mtf::nn
