// SPDX-License-Identifier: Apache-2.0
#include "backends/rank_position.h"

#include "absl/strings/str_cat.h"

namespace mtf {

std::string RanksText(absl::Span<const int64_t> ranks) {
  constexpr int kMostRanges = 6;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  int ranges = 0;
  for (size_t i = 0; i < ranks.size(); ++ranges) {
    if (ranges == kMostRanges) {
      absl::StrAppend(&text, " and ", ranks.size() - i, " more");
      break;
    }
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    absl::StrAppend(&text, ranges > 0 ? ", " : "", ranks[i],
                    last > i ? absl::StrCat("-", ranks[last]) : "");
    i = last + 1;
  }
  return text;
}

}  // namespace mtf
