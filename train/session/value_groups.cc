// SPDX-License-Identifier: Apache-2.0
#include "train/session/value_groups.h"

#include <algorithm>

namespace mtf::train {

std::vector<ValueGroup> GroupByValue(absl::Span<const std::string> values) {
  std::vector<ValueGroup> groups;
  for (size_t rank = 0; rank < values.size(); ++rank) {
    auto group = std::find_if(
        groups.begin(), groups.end(),
        [&](const ValueGroup& known) { return known.value == values[rank]; });
    if (group == groups.end()) group = groups.insert(group, {values[rank], {}});
    group->ranks.push_back(static_cast<int64_t>(rank));
  }
  std::sort(groups.begin(), groups.end(),
            [](const ValueGroup& a, const ValueGroup& b) {
              return a.ranks.size() != b.ranks.size()
                         ? a.ranks.size() < b.ranks.size()
                         : a.ranks[0] > b.ranks[0];
            });
  return groups;
}

}  // namespace mtf::train
