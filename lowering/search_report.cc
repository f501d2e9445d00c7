// SPDX-License-Identifier: Apache-2.0
//
// What a search found, in words (lowering/search_rules.h).
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lowering/explain_parts.h"
#include "lowering/search_rules.h"

namespace mtf {
namespace {

using internal::BytesText;
using internal::SecondsText;

// "0.21 s less compute" where `mine` is less than `other`; "" where both are
// the same to three digits.
void AddDifference(double mine, double other, absl::string_view what,
                   std::vector<std::string>& parts) {
  const double difference = other - mine;
  if (std::abs(difference) <= 5e-4 * std::max(std::abs(mine), std::abs(other)))
    return;
  parts.push_back(absl::StrCat(SecondsText(std::abs(difference)),
                               difference > 0 ? " less " : " more ", what));
}

}  // namespace

std::string WhyText(const SearchResult& result, int place) {
  const std::vector<FoundLayout>& found = result.best;
  if (found.size() < 2) return "the fastest found that fits";
  const bool last = place + 1 == static_cast<int>(found.size());
  const FoundLayout& mine = found[place];
  const FoundLayout& other = found[last ? 0 : place + 1];
  std::vector<std::string> parts;
  AddDifference(mine.price.compute, other.price.compute, "compute", parts);
  AddDifference(mine.price.exposed, other.price.exposed,
                "exposed communication", parts);
  const int64_t bytes = other.memory_bytes() - mine.memory_bytes();
  if (bytes != 0) {
    parts.push_back(
        absl::StrCat(BytesText(std::abs(static_cast<double>(bytes))),
                     bytes > 0 ? " less memory" : " more memory"));
  }
  const double difference = std::abs(other.price.seconds - mine.price.seconds);
  const double share = 100 * difference / mine.price.seconds;
  const std::string against =
      last ? "the best" : absl::StrCat("layout ", place + 2);
  const std::string head =
      share < 0.05
          ? absl::StrCat("as fast as ", against)
          : absl::StrFormat("%s (%.1f %%) %s than %s", SecondsText(difference),
                            share, last ? "slower" : "faster", against);
  if (parts.empty()) return head;
  return absl::StrCat(head, ": ", absl::StrJoin(parts, ", "));
}

std::string LayoutFileText(const SearchResult& result, int place,
                           const SearchOptions& options) {
  const FoundLayout& found = result.best[place];
  const std::string limit =
      options.memory_limit > 0
          ? absl::StrCat(" of ",
                         BytesText(static_cast<double>(options.memory_limit)))
          : "";
  std::string text = absl::StrCat(
      "# Layout ", place + 1, " of ", result.best.size(), " for mesh ",
      found.mesh.ToString(), "\n#   step    ", SecondsText(found.price.seconds),
      ": compute ", SecondsText(found.price.compute),
      ", exposed communication ", SecondsText(found.price.exposed),
      "\n#   memory  ", BytesText(static_cast<double>(found.memory_bytes())),
      limit, " per rank: variables ",
      BytesText(static_cast<double>(found.variable_bytes)), ", step ",
      BytesText(static_cast<double>(found.step_bytes)), "\n#   why     ",
      WhyText(result, place), "\n");
  if (found.text.empty()) {
    text += "# No rule: everything is whole on every rank.\n";
  }
  return absl::StrCat(text, found.text);
}

}  // namespace mtf
