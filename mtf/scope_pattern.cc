// SPDX-License-Identifier: Apache-2.0
#include "mtf/scope_pattern.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "mtf/status.h"

namespace mtf {
namespace {

bool ComponentMatches(absl::string_view pattern, absl::string_view name) {
  // After a "*" that matches too little, the part after it is tried one
  // character later. Only the last "*" needs to be tried again.
  size_t p = 0, n = 0, star = absl::string_view::npos, tried = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != absl::string_view::npos) {
      p = star + 1;
      n = ++tried;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool MatchesOneName(absl::string_view pattern,
                    const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return ScopeMatches(pattern, name);
  });
}

}  // namespace

bool IsScopePattern(absl::string_view pattern) {
  for (absl::string_view part : absl::StrSplit(pattern, '/')) {
    if (part.empty()) return false;
    for (char c : part) {
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' &&
          c != '-' && c != '*') {
        return false;
      }
    }
  }
  return true;
}

bool ScopeMatches(absl::string_view pattern, absl::string_view name) {
  if (pattern.empty()) return true;
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, '/');
  const std::vector<absl::string_view> names =
      absl::StrSplit(name, '/', absl::SkipEmpty());
  // matched[i]: whether the parts so far match the first i names.
  std::vector<bool> matched(names.size() + 1, false);
  matched[0] = true;
  for (absl::string_view part : parts) {
    std::vector<bool> next(matched.size(), false);
    for (size_t i = 0; i < matched.size(); ++i) {
      if (part == "**") {
        next[i] = matched[i] || (i > 0 && next[i - 1]);
      } else {
        next[i] =
            i > 0 && matched[i - 1] && ComponentMatches(part, names[i - 1]);
      }
    }
    matched = next;
  }
  for (bool containing_scope : matched) {
    if (containing_scope) return true;
  }
  return false;
}

std::string PatternOfName(absl::string_view component) {
  const size_t last = component.find_last_not_of("0123456789");
  if (last == absl::string_view::npos || last + 1 == component.size()) {
    return std::string(component);
  }
  return absl::StrCat(component.substr(0, last + 1), "*");
}

std::string CorrectedPattern(absl::string_view pattern,
                             const std::vector<std::string>& names) {
  const std::string deeper = absl::StrCat("**/", pattern);
  if (MatchesOneName(deeper, names)) return deeper;
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
      if (MatchesOneName(absl::StrJoin(replaced, "/"), names)) {
        candidates.push_back(component);
      }
    }
    std::vector<std::string> corrected = components;
    corrected[i] = NearestName(components[i], candidates);
    if (!corrected[i].empty()) return absl::StrJoin(corrected, "/");
  }
  return "";
}

}  // namespace mtf
