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

namespace mtf::train {
namespace {

// FNV-1a: the same in every process, unlike absl::Hash.
uint64_t Hash(absl::string_view text, uint64_t hash = 0xcbf29ce484222325) {
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

using Lines = std::vector<absl::string_view>;

Lines LinesOf(absl::string_view value) { return absl::StrSplit(value, '\n'); }

// More of a value than this is not sent. Only text of users is that long.
constexpr size_t kMostSent = 1 << 16;

// Ranks that have one value.
struct Camp {
  std::string value;  // as it was sent: "=" and the value, or "" for none
  std::vector<int64_t> ranks;
};

// The fewest first: they are the odd ones. Among equals the ranks with rank 0
// come last.
std::vector<Camp> CampsOf(const std::vector<std::string>& values) {
  std::vector<Camp> camps;
  for (size_t rank = 0; rank < values.size(); ++rank) {
    auto camp = std::find_if(
        camps.begin(), camps.end(),
        [&](const Camp& known) { return known.value == values[rank]; });
    if (camp == camps.end()) camp = camps.insert(camp, {values[rank], {}});
    camp->ranks.push_back(static_cast<int64_t>(rank));
  }
  std::sort(camps.begin(), camps.end(), [](const Camp& a, const Camp& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() < b.ranks.size()
                                            : a.ranks[0] > b.ranks[0];
  });
  return camps;
}

// Leaves out of long values what they all begin with.
void Shorten(std::vector<Camp>& camps) {
  constexpr size_t kKept = 40;
  size_t common = camps[0].value.size();
  for (const Camp& camp : camps) {
    const auto [a, b] =
        std::mismatch(camps[0].value.begin(), camps[0].value.end(),
                      camp.value.begin(), camp.value.end());
    common = std::min<size_t>(common, a - camps[0].value.begin());
  }
  if (common < 2 * kKept) return;
  for (Camp& camp : camps) {
    camp.value = absl::StrCat("=...", camp.value.substr(common - kKept));
  }
}

// "rank 3 has --seed "1", ranks 0-2 have "0"".
std::string Difference(absl::string_view name,
                       const std::vector<std::string>& values) {
  constexpr size_t kMostCamps = 4;
  std::vector<Camp> camps = CampsOf(values);
  // The large ones are the last.
  const size_t first = camps.size() - std::min(camps.size(), kMostCamps);
  Shorten(camps);
  std::string text;
  for (size_t i = first; i < camps.size(); ++i) {
    const Camp& camp = camps[i];
    absl::StrAppend(&text, i > first ? ", " : "", RanksText(camp.ranks),
                    camp.ranks.size() == 1 ? " has " : " have ");
    if (camp.value.empty()) {
      absl::StrAppend(&text, "no ", name);
    } else {
      absl::StrAppend(&text, i == first ? absl::StrCat(name, " ") : "",
                      Quoted(absl::string_view(camp.value).substr(1)));
    }
  }
  if (first > 0) {
    absl::StrAppend(&text, ", and other ranks ", first, " more values");
  }
  return text;
}

bool AllEqual(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return text == texts[0]; });
}

// The fields of this rank, and what all ranks have found out about them.
class Comparison {
 public:
  Comparison(Communicator& communicator, const std::vector<PlanField>& fields)
      : communicator_(communicator), fields_(fields) {}

  absl::Status Run() {
    std::string summary;
    for (const PlanField& field : fields_) {
      absl::StrAppend(&summary, field.name, "\n", Hash(field.value), "\n",
                      LinesOf(field.value).size(), "\n");
    }
    MTF_ASSIGN_OR_RETURN(std::vector<std::string> all,
                         communicator_.Exchange(absl::StrCat(Hash(summary))));
    if (AllEqual(all)) return absl::OkStatus();
    MTF_ASSIGN_OR_RETURN(all, communicator_.Exchange(summary));
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
    int64_t lines = 1;  // the most that any rank has
  };

  // In the order in which the ranks, from the first, name them. Every rank
  // finds the same.
  static std::vector<Summary> DifferingFields(
      const std::vector<std::string>& summaries) {
    std::vector<Summary> fields;
    std::vector<std::vector<std::string>> hashes;  // by field and rank
    for (size_t rank = 0; rank < summaries.size(); ++rank) {
      const std::vector<absl::string_view> parts =
          absl::StrSplit(summaries[rank], '\n');
      for (size_t i = 0; i + 2 < parts.size(); i += 3) {
        size_t place = 0;
        while (place < fields.size() && fields[place].name != parts[i]) {
          ++place;
        }
        if (place == fields.size()) {
          fields.push_back({std::string(parts[i]), 1});
          hashes.emplace_back(summaries.size());
        }
        int64_t lines = 1;
        (void)absl::SimpleAtoi(parts[i + 2], &lines);
        fields[place].lines = std::max(fields[place].lines, lines);
        hashes[place][rank] = std::string(parts[i + 1]);
      }
    }
    std::vector<Summary> differing;
    for (size_t place = 0; place < fields.size(); ++place) {
      if (!AllEqual(hashes[place])) differing.push_back(fields[place]);
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
    return absl::StrCat("=", value.substr(0, kMostSent));
  }

  absl::StatusOr<std::string> Compare(const Summary& summary) {
    const PlanField* field = Find(summary.name);
    if (summary.lines <= 1) {
      MTF_ASSIGN_OR_RETURN(
          const std::vector<std::string> values,
          communicator_.Exchange(field == nullptr ? "" : Sent(field->value)));
      return Difference(summary.name, values);
    }
    const Lines lines = field == nullptr ? Lines() : LinesOf(field->value);
    MTF_ASSIGN_OR_RETURN(const int64_t line,
                         FirstDifferingLine(lines, summary.lines));
    MTF_ASSIGN_OR_RETURN(
        const std::vector<std::string> values,
        communicator_.Exchange(line < static_cast<int64_t>(lines.size())
                                   ? Sent(lines[line])
                                   : ""));
    return Difference(absl::StrCat("line ", line + 1, " of ", summary.name),
                      values);
  }

  // Halves the text until the first line is found that not all ranks share;
  // `most` is the number of lines of the longest text.
  absl::StatusOr<int64_t> FirstDifferingLine(const Lines& lines, int64_t most) {
    std::vector<uint64_t> hashes = {Hash("")};  // of the first i lines
    for (int64_t i = 0; i < most; ++i) {
      const bool exists = i < static_cast<int64_t>(lines.size());
      hashes.push_back(
          Hash(exists ? absl::StrCat(lines[i], "\n") : "\n\n", hashes.back()));
    }
    int64_t same = 0, different = most;
    while (same + 1 < different) {
      const int64_t middle = same + (different - same) / 2;
      MTF_ASSIGN_OR_RETURN(
          const std::vector<std::string> all,
          communicator_.Exchange(absl::StrCat(hashes[middle])));
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
  return Comparison(communicator, fields).Run();
}

}  // namespace mtf::train
