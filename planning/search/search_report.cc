// SPDX-License-Identifier: Apache-2.0
//
// The texts of a search result (planning/search/search_layouts.h).
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "planning/cost/layer_names.h"
#include "planning/cost/lifetimes.h"
#include "planning/machine/units.h"
#include "planning/search/search_frontier.h"
#include "planning/search/search_layouts.h"

namespace mtf {
namespace {

using internal::BytesText;
using internal::SecondsText;

// Appends "0.21 s less compute" if `mine` is less than `other`; nothing if both
// agree to three digits.
void AddDifference(double mine, double other, absl::string_view what,
                   std::vector<std::string>& differences) {
  const double difference = other - mine;
  if (std::abs(difference) <=
      5e-4 * std::max(std::abs(mine), std::abs(other))) {
    return;
  }
  differences.push_back(absl::StrCat(SecondsText(std::abs(difference)),
                                     difference > 0 ? " less " : " more ",
                                     what));
}

// The first few rules of `a` that `b` does not have: "vocab:data, [optimizer]
// d_model:data and 2 more"; "" if there are none.
std::string OwnRules(const LayoutRules& a, const LayoutRules& b) {
  constexpr size_t kShown = 2;
  std::vector<std::string> theirs, own;
  for (const LayoutRule& rule : b.rules()) {
    theirs.push_back(rule.TextWithSection());
  }
  for (const LayoutRule& rule : a.rules()) {
    const std::string text = rule.TextWithSection();
    if (std::find(theirs.begin(), theirs.end(), text) == theirs.end()) {
      own.push_back(text);
    }
  }
  if (own.size() <= kShown + 1) return absl::StrJoin(own, ", ");
  const size_t more = own.size() - kShown;
  own.resize(kShown);
  return absl::StrCat(absl::StrJoin(own, ", "), " and ", more, " more");
}

std::string Count(int64_t count, absl::string_view one,
                  absl::string_view several) {
  return absl::StrCat(count, " ", count == 1 ? one : several);
}

}  // namespace

std::string WhyText(const SearchResult& result, int index) {
  const std::vector<FoundLayout>& found = result.best;
  if (found.size() < 2) return "the fastest that fits";
  const bool last = index + 1 == static_cast<int>(found.size());
  const FoundLayout& mine = found[index];
  const FoundLayout& other = found[last ? 0 : index + 1];
  std::vector<std::string> differences;
  AddDifference(mine.price.compute, other.price.compute, "compute",
                differences);
  AddDifference(mine.price.exposed, other.price.exposed,
                "exposed communication", differences);
  AddDifference(mine.price.host_copies, other.price.host_copies,
                "copies to and from the host", differences);
  const int64_t bytes = other.memory_bytes() - mine.memory_bytes();
  if (bytes != 0) {
    differences.push_back(
        absl::StrCat(BytesText(std::abs(static_cast<double>(bytes))),
                     bytes > 0 ? " less memory" : " more memory"));
  }
  const int64_t host_bytes = other.host_bytes - mine.host_bytes;
  if (host_bytes != 0) {
    differences.push_back(absl::StrCat(
        BytesText(std::abs(static_cast<double>(host_bytes))),
        host_bytes > 0 ? " less host memory" : " more host memory"));
  }
  const double difference = std::abs(other.price.seconds - mine.price.seconds);
  const double share = 100 * difference / mine.price.seconds;
  const std::string against =
      last ? "the best" : absl::StrCat("layout ", index + 2);
  std::string text =
      share < 0.05
          ? absl::StrCat("as fast as ", against)
          : absl::StrFormat("%s (%.1f %%) %s than %s", SecondsText(difference),
                            share, last ? "slower" : "faster", against);
  if (!differences.empty()) {
    absl::StrAppend(&text, ": ", absl::StrJoin(differences, ", "));
  }
  std::vector<std::string> rules;
  const std::string own = OwnRules(mine.rules, other.rules);
  const std::string theirs = OwnRules(other.rules, mine.rules);
  if (!own.empty()) rules.push_back(absl::StrCat("only here ", own));
  if (!theirs.empty()) {
    rules.push_back(absl::StrCat("only in ", against, " ", theirs));
  }
  if (!rules.empty()) {
    absl::StrAppend(&text, "\n#           ", absl::StrJoin(rules, "; "));
  }
  return text;
}

std::string SummaryText(const SearchResult& result) {
  const int64_t first = result.lowered - result.refined - result.by_modules;
  std::string text = absl::StrFormat(
      "# %.7g layout%s%s: ", result.space, result.space == 1 ? "" : "s",
      result.restricted ? ", with few mixes of rules for variables" : "");
  if (!result.complete) {
    absl::StrAppend(&text, Count(first, "was", "were"),
                    " lowered before the search ended early: there may be "
                    "better ones\n");
  } else if (static_cast<double>(first) < result.space) {
    absl::StrAppend(&text, Count(first, "was", "were"),
                    " lowered, the others are slower or too large by their "
                    "bounds\n");
  } else {
    absl::StrAppend(&text, first == 1 ? "it was" : "all were", " lowered\n");
  }
  if (result.by_modules > 0) {
    absl::StrAppend(&text, "# Then ", result.by_modules,
                    " with rules for scopes\n");
  }
  if (result.refined > 0) {
    absl::StrAppend(&text, "# Then ", result.refined,
                    result.refined == 1 ? " that differs" : " that differ",
                    " from the best in one rule, until none was faster\n");
  }
  if (result.complete) {
    text += result.restricted
                ? "# Not every mix of rules for variables was searched: a "
                  "faster one is not ruled out\n"
            : !result.priced_layers.empty()
                ? "# The first is the best layout found, by prices from a few "
                  "layers\n"
            : result.by_modules > 0
                ? "# The first is the best layout found; only some with rules "
                  "for scopes were priced\n"
            : result.searched_in_full
                ? "# These are the best layouts found\n"
                : "# The first is the best layout found\n";
  }
  if (result.too_large > 0) {
    absl::StrAppend(&text, "# Of those lowered ", result.too_large,
                    " took too much memory\n");
  }
  if (result.over_budget > 0) {
    absl::StrAppend(&text, "# Of those lowered ", result.over_budget,
                    " broke the budget\n");
  }
  for (const std::string& notice : result.notices) {
    absl::StrAppend(&text, "# Note: ", notice, "\n");
  }
  return text;
}

std::string LayoutFileText(const SearchResult& result, int index,
                           const SearchOptions& options) {
  const FoundLayout& found = result.best[index];
  const int64_t most = internal::MemoryLimitOf(options).bytes;
  const std::string limit =
      most > 0 ? absl::StrCat(" of ", BytesText(static_cast<double>(most)))
               : "";
  std::string text = absl::StrCat(
      "# Layout ", index + 1, " of ", result.best.size(), " for mesh ",
      found.mesh.ToString(), "\n#   step    ", SecondsText(found.price.seconds),
      ": compute ", SecondsText(found.price.compute),
      ", exposed communication ", SecondsText(found.price.exposed),
      found.price.host_copies > 0
          ? absl::StrCat(", copies to and from the host ",
                         SecondsText(found.price.host_copies))
          : "",
      "\n#   memory  ", BytesText(static_cast<double>(found.memory_bytes())),
      limit, " per rank: variables ",
      BytesText(static_cast<double>(found.variable_bytes)), ", step ",
      BytesText(static_cast<double>(found.step_bytes)),
      found.host_bytes > 0
          ? absl::StrCat("\n#   host    ",
                         BytesText(static_cast<double>(found.host_bytes)),
                         " of host memory per rank, by [offload]")
          : "",
      "\n#   why     ", WhyText(result, index), "\n");
  if (found.text.empty()) {
    text += "# No rule: all tensors are replicated.\n";
  }
  absl::StrAppend(&text, found.text);
  if (!found.rules.offload().empty()) {
    absl::StrAppend(&text, "[offload]\n", found.rules.offload().ToString(),
                    "\n");
  }
  if (!options.budget.empty()) {
    text += "[budget]\n";
    for (const BudgetLine& line : options.budget.lines()) {
      absl::StrAppend(&text, line.ToString(), "\n");
    }
  }
  return text;
}

}  // namespace mtf
