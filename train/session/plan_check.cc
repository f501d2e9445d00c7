// SPDX-License-Identifier: Apache-2.0
#include "train/session/plan_check.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "backends/rank_position.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/session/sign_in.h"
#include "train/session/value_groups.h"

namespace mtf::train {
namespace {

using Lines = std::vector<absl::string_view>;

Lines LinesOf(absl::string_view value) { return absl::StrSplit(value, '\n'); }

// Longer values are truncated before they are sent.
constexpr size_t kMaxSentBytes = 1 << 16;

// Abbreviates a long common prefix of the values.
// A value is "=" and the text of the field, or "" for none.
void Shorten(std::vector<ValueGroup>& groups) {
  constexpr size_t kKept = 40;
  size_t common = groups[0].value.size();
  for (const ValueGroup& group : groups) {
    const auto [a, b] =
        std::mismatch(groups[0].value.begin(), groups[0].value.end(),
                      group.value.begin(), group.value.end());
    common = std::min<size_t>(common, a - groups[0].value.begin());
  }
  if (common < 2 * kKept) return;
  for (ValueGroup& group : groups) {
    group.value = absl::StrCat("=...", group.value.substr(common - kKept));
  }
}

// "rank 3 has --seed "1", ranks 0-2 have "0"".
std::string Difference(absl::string_view name,
                       const std::vector<std::string>& values) {
  constexpr size_t kMaxGroups = 4;
  std::vector<ValueGroup> groups = GroupByValue(values);
  // Show the largest groups, which are the last.
  const size_t first = groups.size() - std::min(groups.size(), kMaxGroups);
  Shorten(groups);
  std::string text;
  for (size_t i = first; i < groups.size(); ++i) {
    const ValueGroup& group = groups[i];
    absl::StrAppend(&text, i > first ? ", " : "", RanksText(group.ranks),
                    group.ranks.size() == 1 ? " has " : " have ");
    if (group.value.empty()) {
      absl::StrAppend(&text, "no ", name);
    } else {
      absl::StrAppend(&text, i == first ? absl::StrCat(name, " ") : "",
                      Quoted(absl::string_view(group.value).substr(1)));
    }
  }
  if (first > 0) {
    absl::StrAppend(&text, ", and other ranks have ", first, " more values");
  }
  return text;
}

bool AllEqual(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return text == texts[0]; });
}

// Compares the fields of this rank with those of the others.
class PlanComparison {
 public:
  PlanComparison(Communicator& communicator,
                 const std::vector<PlanField>& fields)
      : communicator_(communicator), fields_(fields) {}

  absl::Status Run() {
    std::string summary;
    for (const PlanField& field : fields_) {
      absl::StrAppend(&summary, field.name, "\n", StableHash(field.value), "\n",
                      LinesOf(field.value).size(), "\n");
    }
    MTF_ASSIGN_OR_RETURN(
        std::vector<std::string> all,
        communicator_.AllGatherText(absl::StrCat(StableHash(summary))));
    if (AllEqual(all)) return absl::OkStatus();
    MTF_ASSIGN_OR_RETURN(all, communicator_.AllGatherText(summary));
    std::string text;
    for (const Summary& differing : DifferingFields(all)) {
      MTF_ASSIGN_OR_RETURN(const std::string difference, Compare(differing));
      absl::StrAppend(&text, text.empty() ? "" : DetailLine("also", ""),
                      difference);
    }
    return absl::FailedPreconditionError(absl::StrCat(
        text, DetailLine("help",
                         "start every rank with the same flags, environment "
                         "and files")));
  }

 private:
  struct Summary {
    std::string name;
    int64_t lines = 1;  // the maximum over all ranks
  };

  // The fields that differ, in the order in which they first occur by rank.
  // Every rank gets the same result.
  static std::vector<Summary> DifferingFields(
      const std::vector<std::string>& summaries) {
    std::vector<Summary> fields;
    std::vector<std::vector<std::string>> hashes;  // by field and rank
    for (size_t rank = 0; rank < summaries.size(); ++rank) {
      const std::vector<absl::string_view> parts =
          absl::StrSplit(summaries[rank], '\n');
      for (size_t i = 0; i + 2 < parts.size(); i += 3) {
        size_t field = 0;
        while (field < fields.size() && fields[field].name != parts[i]) {
          ++field;
        }
        if (field == fields.size()) {
          fields.push_back({std::string(parts[i]), 1});
          hashes.emplace_back(summaries.size());
        }
        int64_t lines = 1;
        (void)absl::SimpleAtoi(parts[i + 2], &lines);
        fields[field].lines = std::max(fields[field].lines, lines);
        hashes[field][rank] = std::string(parts[i + 1]);
      }
    }
    std::vector<Summary> differing;
    for (size_t i = 0; i < fields.size(); ++i) {
      if (!AllEqual(hashes[i])) differing.push_back(fields[i]);
    }
    return differing;
  }

  const PlanField* Find(const std::string& name) const {
    for (const PlanField& field : fields_) {
      if (field.name == name) return &field;
    }
    return nullptr;
  }

  static std::string Sent(absl::string_view value) {
    return absl::StrCat("=", value.substr(0, kMaxSentBytes));
  }

  absl::StatusOr<std::string> Compare(const Summary& summary) {
    const PlanField* field = Find(summary.name);
    if (summary.lines <= 1) {
      MTF_ASSIGN_OR_RETURN(const std::vector<std::string> values,
                           communicator_.AllGatherText(
                               field == nullptr ? "" : Sent(field->value)));
      return Difference(summary.name, values);
    }
    const Lines lines = field == nullptr ? Lines() : LinesOf(field->value);
    MTF_ASSIGN_OR_RETURN(const int64_t line,
                         FirstDifferingLine(lines, summary.lines));
    MTF_ASSIGN_OR_RETURN(
        const std::vector<std::string> values,
        communicator_.AllGatherText(line < static_cast<int64_t>(lines.size())
                                        ? Sent(lines[line])
                                        : ""));
    return Difference(absl::StrCat("line ", line + 1, " of ", summary.name),
                      values);
  }

  // Finds the first line that differs by binary search over hashes of prefixes.
  // `num_lines` is the number of lines of the longest text.
  absl::StatusOr<int64_t> FirstDifferingLine(const Lines& lines,
                                             int64_t num_lines) {
    std::vector<uint64_t> hashes = {StableHash("")};  // of the first i lines
    for (int64_t i = 0; i < num_lines; ++i) {
      const bool exists = i < static_cast<int64_t>(lines.size());
      hashes.push_back(StableHash(
          exists ? absl::StrCat(lines[i], "\n") : "\n\n", hashes.back()));
    }
    int64_t same = 0, different = num_lines;
    while (same + 1 < different) {
      const int64_t middle = same + (different - same) / 2;
      MTF_ASSIGN_OR_RETURN(
          const std::vector<std::string> all,
          communicator_.AllGatherText(absl::StrCat(hashes[middle])));
      (AllEqual(all) ? same : different) = middle;
    }
    return same;
  }

  Communicator& communicator_;
  const std::vector<PlanField>& fields_;
};

}  // namespace

absl::Status CheckSamePlan(Communicator& communicator,
                           const std::vector<PlanField>& fields) {
  if (communicator.size() == 1) return absl::OkStatus();
  return PlanComparison(communicator, fields).Run();
}

}  // namespace mtf::train
