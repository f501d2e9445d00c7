// SPDX-License-Identifier: Apache-2.0
#include "nn/optimizers/parameter_groups.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "mtf/scope_pattern.h"
#include "mtf/status.h"
#include "ops/checks.h"

namespace mtf::nn {
namespace {

bool MatchesOneOf(absl::string_view pattern,
                  const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return ScopeMatches(pattern, name);
  });
}

// `pattern` with one component replaced by a component of `names` that differs
// by a spelling mistake, if it then matches one of them; otherwise "".
std::string CorrectedPattern(absl::string_view pattern,
                             const std::vector<std::string>& names) {
  std::set<std::string> known;
  for (const std::string& name : names) {
    for (absl::string_view component : absl::StrSplit(name, '/')) {
      known.emplace(component);
      known.insert(PatternOfName(component));
    }
  }
  const std::vector<std::string> components = absl::StrSplit(pattern, '/');
  for (size_t i = 0; i < components.size(); ++i) {
    std::vector<std::string> candidates;
    for (const std::string& component : known) {
      std::vector<std::string> replaced = components;
      replaced[i] = component;
      if (MatchesOneOf(absl::StrJoin(replaced, "/"), names)) {
        candidates.push_back(component);
      }
    }
    std::vector<std::string> corrected = components;
    corrected[i] = NearestName(components[i], candidates);
    if (!corrected[i].empty()) return absl::StrJoin(corrected, "/");
  }
  return "";
}

}  // namespace

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

absl::Status CheckMatches(absl::string_view option, absl::string_view pattern,
                          const std::vector<std::string>& names) {
  if (pattern.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option,
                     " has an empty pattern of parameters\n  help     \"**\" "
                     "matches all of them"));
  }
  if (MatchesOneOf(pattern, names)) return absl::OkStatus();
  const std::string nearest = CorrectedPattern(pattern, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "the pattern \"", pattern, "\" of ", option, " matches no parameter",
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      "\n  help     parameters have names such as \"", names[0],
      "\"; graph.variables() has all"));
}

}  // namespace internal
}  // namespace mtf::nn
