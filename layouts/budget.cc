// SPDX-License-Identifier: Apache-2.0
#include "layouts/budget.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf {
namespace {

constexpr absl::string_view kForm =
    "write \"no all_gather of parameters in layer_*\", \"nothing over model\", "
    "\"at most 64 MiB over data\" or \"memory at most 80 GiB\"; "
    "docs/budgets.md has every word";

struct Unit {
  const char* name;
  int64_t bytes;
};
constexpr Unit kUnits[] = {
    {"B", 1},
    {"KiB", int64_t{1} << 10},
    {"MiB", int64_t{1} << 20},
    {"GiB", int64_t{1} << 30},
    {"TiB", int64_t{1} << 40},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
};

// The collectives with a word. An all_slice sends nothing, so it has none.
constexpr CollectiveKind kKinds[] = {
    CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
    CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
    CollectiveKind::kCollectivePermute};
constexpr absl::string_view kAnyKind = "collective";
constexpr absl::string_view kParameters = "parameters";
constexpr absl::string_view kOptimizer = "optimizer";

std::vector<std::string> KindWords() {
  std::vector<std::string> words = {std::string(kAnyKind)};
  for (CollectiveKind kind : kKinds) words.emplace_back(CollectiveName(kind));
  return words;
}

// "a", "b" or "c".
std::string OneOf(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    absl::StrAppend(&text,
                    i == 0                  ? ""
                    : i + 1 == words.size() ? " or "
                                            : ", ",
                    "\"", words[i], "\"");
  }
  return text;
}

// The element of `words` of which `word` differs in case or is probably a
// misspelling, or "".
std::string Nearest(absl::string_view word,
                    const std::vector<std::string>& words) {
  for (const std::string& candidate : words) {
    if (absl::EqualsIgnoreCase(word, candidate)) return candidate;
  }
  return NearestName(word, words);
}

// Parses one line of a budget, word by word.
class BudgetLineParser {
 public:
  BudgetLineParser(absl::string_view text, std::string origin)
      : origin_(std::move(origin)),
        words_(absl::StrSplit(text, absl::ByAnyChar(" \t\r\v\f"),
                              absl::SkipEmpty())) {}

  absl::StatusOr<BudgetLine> Parse() {
    const std::vector<std::string> starts = {"no", "nothing", "at", "memory"};
    const absl::string_view start = Next();
    if (start == "no") {
      MTF_RETURN_IF_ERROR(ParseKind());
      MTF_RETURN_IF_ERROR(ParseClauses());
    } else if (start == "nothing") {
      has_kind_ = true;
      MTF_RETURN_IF_ERROR(ParseClauses());
    } else if (start == "at") {
      line_.subject = BudgetSubject::kBytes;
      MTF_RETURN_IF_ERROR(ParseMost());
      MTF_RETURN_IF_ERROR(ParseClauses());
    } else if (start == "memory") {
      line_.subject = BudgetSubject::kMemory;
      MTF_RETURN_IF_ERROR(Expect("at"));
      MTF_RETURN_IF_ERROR(ParseMost());
      if (!AtEnd()) {
        return Error(absl::StrCat("has ", Quoted(Next()),
                                  " after the size: memory is limited for a "
                                  "rank as a whole"));
      }
    } else {
      return Unexpected(start, starts);
    }
    line_.text = absl::StrJoin(words_, " ");
    line_.origin = origin_;
    return line_;
  }

  absl::Status Error(absl::string_view what,
                     absl::string_view help = kForm) const {
    return absl::InvalidArgumentError(
        absl::StrCat("budget line ", Quoted(absl::StrJoin(words_, " ")), " ",
                     what, " (", origin_, ")", DetailLine("help", help)));
  }

 private:
  bool AtEnd() const { return next_ == words_.size(); }
  // The next word, "" at the end.
  absl::string_view Next() { return AtEnd() ? "" : words_[next_++]; }

  // The error that `word` was found where one of `words` is expected.
  absl::Status Unexpected(absl::string_view word,
                          const std::vector<std::string>& words) const {
    if (word.empty()) {
      return Error(absl::StrCat("ends where ", OneOf(words), " should follow"));
    }
    const std::string nearest = Nearest(word, words);
    return Error(absl::StrCat(
        "has the word ", Quoted(word), " where ", OneOf(words), " should be",
        nearest.empty() ? ""
                        : absl::StrCat("; did you mean \"", nearest, "\"?")));
  }

  absl::Status Expect(absl::string_view word) {
    const absl::string_view next = Next();
    if (next == word) return absl::OkStatus();
    return Unexpected(next, {std::string(word)});
  }

  // Sets the kind if `word` names one; returns whether it does.
  bool TakeKind(absl::string_view word) {
    if (has_kind_) return false;
    for (CollectiveKind kind : kKinds) {
      if (word == CollectiveName(kind)) line_.kind = kind;
    }
    has_kind_ = line_.kind.has_value() || word == kAnyKind;
    return has_kind_;
  }

  bool TakeTensors(absl::string_view word) {
    if (line_.tensors != BudgetTensors::kAll) return false;
    if (word == kParameters) line_.tensors = BudgetTensors::kParameters;
    if (word == kOptimizer) line_.tensors = BudgetTensors::kOptimizer;
    return line_.tensors != BudgetTensors::kAll;
  }

  absl::Status ParseKind() {
    const absl::string_view word = Next();
    if (TakeKind(word)) return absl::OkStatus();
    return Unexpected(word, KindWords());
  }

  // Parses "most 64 MiB", after "at".
  absl::Status ParseMost() {
    MTF_RETURN_IF_ERROR(Expect("most"));
    const absl::string_view word = Next();
    const size_t digits =
        std::min(word.find_first_not_of("0123456789."), word.size());
    double number = 0;
    if (digits == 0 || !absl::SimpleAtod(word.substr(0, digits), &number)) {
      if (word.empty()) return Error("ends where a size should follow");
      return Error(absl::StrCat("has ", Quoted(word),
                                " where a size should be, as in \"64 MiB\""));
    }
    absl::string_view unit = word.substr(digits);
    if (unit.empty()) unit = Next();
    std::vector<std::string> units;
    for (const Unit& candidate : kUnits) {
      units.emplace_back(candidate.name);
      if (unit != candidate.name) continue;
      const double bytes = number * static_cast<double>(candidate.bytes);
      if (!(bytes <= 0x1p62)) {
        return Error("allows more bytes than any machine has");
      }
      line_.most_bytes = static_cast<int64_t>(std::floor(bytes));
      return absl::OkStatus();
    }
    return Unexpected(unit, units);
  }

  absl::Status ParseAxes() {
    const absl::string_view word = Next();
    if (word.empty()) return Error("ends where mesh axes should follow");
    for (absl::string_view axis : absl::StrSplit(word, '+')) {
      if (!IsLayoutName(axis)) {
        return Error(absl::StrCat(
            "has ", Quoted(word),
            " where mesh axes should be, as in \"data\" or \"pod+data\""));
      }
      if (std::find(line_.axes.begin(), line_.axes.end(), axis) !=
          line_.axes.end()) {
        return Error(absl::StrCat("names the axis ", Quoted(axis), " twice"));
      }
      line_.axes.emplace_back(axis);
    }
    return absl::OkStatus();
  }

  absl::Status ParseScope() {
    const absl::string_view word = Next();
    if (word.empty()) {
      return Error("ends where names of operations should follow");
    }
    for (absl::string_view component : absl::StrSplit(word, '/')) {
      if (component.empty()) {
        return Error(absl::StrCat("has ", Quoted(word),
                                  " where names of operations should be, as "
                                  "in \"layer_*/attention\""));
      }
    }
    line_.scope = std::string(word);
    return absl::OkStatus();
  }

  absl::Status ParseOf() {
    const absl::string_view word = Next();
    if (TakeKind(word) || TakeTensors(word)) return absl::OkStatus();
    std::vector<std::string> words;
    if (!has_kind_) words = KindWords();
    if (line_.tensors == BudgetTensors::kAll) {
      words.emplace_back(kParameters);
      words.emplace_back(kOptimizer);
    }
    if (words.empty()) return Error("has too many clauses with \"of\"");
    return Unexpected(word, words);
  }

  // Parses clauses such as "of parameters over data in layer_*", in any order.
  absl::Status ParseClauses() {
    while (!AtEnd()) {
      const absl::string_view word = Next();
      if (word == "of") {
        MTF_RETURN_IF_ERROR(ParseOf());
      } else if (word == "over" && line_.axes.empty()) {
        MTF_RETURN_IF_ERROR(ParseAxes());
      } else if (word == "in" && line_.scope.empty()) {
        MTF_RETURN_IF_ERROR(ParseScope());
      } else if (word == "over" || word == "in") {
        return Error(absl::StrCat("has the word \"", word, "\" twice"));
      } else {
        return Unexpected(word, {"of", "over", "in"});
      }
    }
    return absl::OkStatus();
  }

  std::string origin_;
  std::vector<absl::string_view> words_;
  size_t next_ = 0;
  bool has_kind_ = false;
  BudgetLine line_;
};

// Whether both lines limit the same collectives, or both limit memory.
bool LimitTheSame(const BudgetLine& a, const BudgetLine& b) {
  return a.subject == b.subject && a.kind == b.kind && a.tensors == b.tensors &&
         a.axes == b.axes && a.scope == b.scope;
}

}  // namespace

absl::Status Budget::Add(absl::string_view text, const Source& source) {
  int line = source.line;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end =
        std::min(text.find_first_of(",;\n#", begin), text.size());
    const absl::string_view words =
        absl::StripAsciiWhitespace(text.substr(begin, end - begin));
    if (!words.empty()) {
      const int64_t first = source.first + (words.data() - text.data()) + 1;
      const int64_t last = first + static_cast<int64_t>(words.size()) - 1;
      std::string origin =
          source.by_line
              ? absl::StrCat(source.origin, ":", line)
              : absl::StrCat(source.origin, source.origin.empty() ? "" : ", ",
                             "characters ", first, "-", last);
      BudgetLineParser parser(words, std::move(origin));
      MTF_ASSIGN_OR_RETURN(BudgetLine parsed, parser.Parse());
      for (const BudgetLine& before : lines_) {
        if (!LimitTheSame(before, parsed)) continue;
        return parser.Error(
            absl::StrCat("limits the same as ", Quoted(before.text)),
            absl::StrCat("the first is at ", before.origin, "; keep one"));
      }
      lines_.push_back(std::move(parsed));
    }
    begin = end;
    if (begin < text.size() && text[begin] == '#') {
      begin = std::min(text.find('\n', begin), text.size());
    }
    if (begin < text.size() && text[begin] == '\n') ++line;
    ++begin;
  }
  return absl::OkStatus();
}

std::string Budget::ToString() const {
  return absl::StrJoin(
      lines_, ", ",
      [](std::string* out, const BudgetLine& line) { out->append(line.text); });
}

}  // namespace mtf
