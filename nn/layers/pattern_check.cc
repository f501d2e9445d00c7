// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/pattern_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mtf/scope_pattern.h"

namespace mtf::nn::internal {
namespace {

bool MatchesOneOf(absl::string_view pattern,
                  const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return ScopeMatches(pattern, name);
  });
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
