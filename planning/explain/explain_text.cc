// SPDX-License-Identifier: Apache-2.0
//
// ExplainText: what one asks first, on one screen.
#include "planning/explain/explain_text.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "planning/explain/explain_parts.h"
#include "planning/explain/explain_table.h"

namespace mtf {
namespace internal {
namespace {

constexpr int64_t kMaxCollectiveLines = 15;
constexpr size_t kMaxTensorRows = 3;
constexpr size_t kMaxChangeRows = 5;

// The `count` groups that communicate longest while nothing computes, in
// program order.
std::vector<CollectiveGroup> MostExposed(std::vector<CollectiveGroup> groups,
                                         size_t count) {
  const auto costs_more = [](const CollectiveGroup& a,
                             const CollectiveGroup& b) {
    if (a.exposed != b.exposed) return a.exposed > b.exposed;
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return a.first->number < b.first->number;
  };
  const auto is_earlier = [](const CollectiveGroup& a,
                             const CollectiveGroup& b) {
    return a.first->number < b.first->number;
  };
  std::sort(groups.begin(), groups.end(), costs_more);
  groups.resize(count);
  std::sort(groups.begin(), groups.end(), is_earlier);
  return groups;
}

std::string OthersText(const Explanation& explanation,
                       const std::vector<CollectiveGroup>& shown, int width) {
  int64_t calls = static_cast<int64_t>(explanation.collectives.size());
  int64_t bytes = explanation.cost.wire_bytes;
  double exposed = explanation.exposed;
  for (const CollectiveGroup& group : shown) {
    calls -= group.calls;
    bytes -= group.bytes;
    exposed -= group.exposed;
  }
  if (calls == 0) return "";
  return WrappedText(
      absl::StrCat("and ", Plural(calls, "collective"),
                   calls == 1 ? " that sends " : " that send ",
                   BytesText(static_cast<double>(bytes)), ", ",
                   SecondsText(std::max(0.0, exposed)), " exposed"),
      width, 2);
}

std::string CollectiveTable(const std::vector<CollectiveGroup>& groups,
                            bool untried, int width) {
  std::vector<std::vector<std::string>> rows;
  for (const CollectiveGroup& group : groups) {
    const ExplainedCollective& first = *group.first;
    // Most collectives go with their rule, which needs no column of its own.
    const bool drops_rule =
        group.removed_by == absl::StrCat("drop ", first.rule);
    rows.push_back({absl::StrCat(group.calls), first.kind, first.axes,
                    BytesText(static_cast<double>(group.bytes)),
                    SecondsText(group.exposed), group.tensor, first.rule,
                    first.site, untried || drops_rule ? "" : group.removed_by});
  }
  return TableText({{"calls", true},
                    {"collective"},
                    {"axis"},
                    {"sent", true},
                    {"exposed", true},
                    {"tensor"},
                    {"caused by"},
                    {"made at"},
                    {"removed by", false, true}},
                   rows, width);
}

std::string CollectivesText(const Explanation& explanation, int width) {
  if (explanation.collectives.empty()) {
    return absl::StrCat("\n", kNothingSent, "\n");
  }
  const std::vector<CollectiveGroup> all = GroupCollectives(explanation);
  const bool untried = NoChangeWasTried(explanation);
  std::vector<CollectiveGroup> shown = all;
  std::string table = CollectiveTable(shown, untried, width);
  // In a narrow text a row has several lines.
  while (std::count(table.begin(), table.end(), '\n') > kMaxCollectiveLines &&
         shown.size() > 1) {
    shown = MostExposed(all, shown.size() - 1);
    table = CollectiveTable(shown, untried, width);
  }
  const std::string title = absl::StrCat(
      "collectives, in program order",
      shown.size() < all.size() ? ", those with the longest exposed time" : "");
  return absl::StrCat("\n", WrappedText(title, width, 2), table,
                      OthersText(explanation, shown, width));
}

// The fastest changes, and the one with the least memory, fastest first.
std::vector<size_t> BestChanges(const std::vector<RuleChange>& changes) {
  std::vector<size_t> order(changes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return changes[a].cost.seconds < changes[b].cost.seconds;
  });
  if (order.size() <= kMaxChangeRows) return order;
  const size_t least_memory =
      *std::min_element(order.begin(), order.end(), [&](size_t a, size_t b) {
        return changes[a].cost.memory_bytes < changes[b].cost.memory_bytes;
      });
  order.resize(kMaxChangeRows);
  if (std::find(order.begin(), order.end(), least_memory) == order.end()) {
    order.back() = least_memory;
  }
  return order;
}

std::string BestChangesText(const Explanation& explanation, int width) {
  const std::vector<size_t> best = BestChanges(explanation.changes);
  if (best.empty()) return "";
  return ChangesText(
      explanation, best,
      best.size() < explanation.changes.size()
          ? "changes of rules: the fastest, and the one with the least memory"
          : "changes of rules, the fastest first",
      width);
}

}  // namespace
}  // namespace internal

std::string ExplainText(const Explanation& explanation, int width) {
  width = std::max(width, internal::kMinTextWidth);
  return absl::StrCat(internal::HeadText(explanation, width),
                      internal::TotalsText(explanation, width),
                      internal::CollectivesText(explanation, width),
                      internal::MemoryText(explanation, width,
                                           {.tensors = internal::kMaxTensorRows,
                                            .types = false}),
                      internal::PaddingText(explanation, width),
                      internal::BestChangesText(explanation, width));
}

std::string WithColors(absl::string_view text) {
  constexpr absl::string_view kBold = "\x1b[1m", kYellow = "\x1b[33m",
                              kPlain = "\x1b[0m";
  std::string colored;
  bool is_title = false;
  absl::string_view style;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    // The lines of a note are indented after its first.
    if (absl::StartsWith(line, "note: ")) {
      style = kYellow;
    } else if (!absl::StartsWith(line, "  ")) {
      style = is_title ? kBold : "";
    }
    absl::StrAppend(&colored, colored.empty() ? "" : "\n", style, line,
                    style.empty() ? "" : kPlain);
    is_title = line.empty();
  }
  return colored;
}

}  // namespace mtf
