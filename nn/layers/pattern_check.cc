// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/pattern_check.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "mtf/scope_pattern.h"
#include "mtf/status.h"

namespace mtf::nn::internal {
namespace {

bool MatchesOneOf(absl::string_view pattern,
                  const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return ScopeMatches(pattern, name);
  });
}

// `pattern` at any depth, or with one component replaced by a component of
// `names` that differs by a spelling mistake, if it then matches one of them;
// otherwise "".
std::string CorrectedPattern(absl::string_view pattern,
                             const std::vector<std::string>& names) {
  const std::string deeper = absl::StrCat("**/", pattern);
  if (MatchesOneOf(deeper, names)) return deeper;
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

absl::Status CheckMatches(absl::string_view option, absl::string_view pattern,
                          const std::vector<std::string>& names,
                          absl::string_view kind) {
  if (pattern.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " has an empty pattern of ", kind,
                     "s\n  help     \"**\" matches all of them"));
  }
  if (MatchesOneOf(pattern, names)) return absl::OkStatus();
  const std::string nearest = CorrectedPattern(pattern, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "the pattern \"", pattern, "\" of ", option, " matches no ", kind,
      nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?"),
      names.empty()
          ? absl::StrCat("\n  help     there is no ", kind)
          : absl::StrCat(
                "\n  help     ", kind, "s have names such as \"", names[0],
                "\"",
                kind == "parameter" ? "; graph.variables() has all" : "")));
}

}  // namespace mtf::nn::internal
