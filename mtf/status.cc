// SPDX-License-Identifier: Apache-2.0
#include "mtf/status.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mtf {

CallSite CallSite::Of(const std::source_location& location) {
  absl::string_view path = location.file_name();
  const size_t slash = path.rfind('/');
  if (slash != absl::string_view::npos) path.remove_prefix(slash + 1);
  return {std::string(path), static_cast<int>(location.line())};
}

std::string CallSite::ToString() const { return absl::StrCat(file, ":", line); }

std::string ErrorText(const absl::Status& status) {
  if (status.ok()) return "OK";
  return absl::StrCat(absl::StatusCodeToString(status.code()), " ",
                      status.message());
}

int EditDistance(absl::string_view a, absl::string_view b) {
  // Optimal string alignment over three rolling rows.
  std::vector<int> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string NearestName(absl::string_view word,
                        const std::vector<std::string>& candidates) {
  std::string best;
  int best_distance = 3;
  for (const std::string& candidate : candidates) {
    const int most = std::min(word.size(), candidate.size()) < 5 ? 1 : 2;
    // Differences in case count as one edit in total.
    const int distance = absl::EqualsIgnoreCase(word, candidate)
                             ? std::min(EditDistance(word, candidate), 1)
                             : EditDistance(word, candidate);
    if (distance <= most && distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace mtf
