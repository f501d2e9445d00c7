// SPDX-License-Identifier: Apache-2.0
#include "lowering/program/line_reader.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "layouts/text_items.h"

namespace mtf {
namespace {

bool IsDigit(char c) {
  return absl::ascii_isdigit(static_cast<unsigned char>(c));
}

bool InWord(char c, absl::string_view further = "") {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '-' || absl::StrContains(further, c);
}

}  // namespace

std::string LogicalLine::Position(size_t at) const {
  const Segment* segment = &segments[0];
  for (const Segment& other : segments) {
    if (other.begin <= at) segment = &other;
  }
  return absl::StrCat("line ", segment->number, ", column ",
                      segment->column + at - segment->begin);
}

std::vector<LogicalLine> LogicalLines(absl::string_view text) {
  std::vector<LogicalLine> lines;
  int number = 0;
  for (absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&raw, "\r");  // Windows line ends
    const size_t indent = std::min(raw.find_first_not_of(' '), raw.size());
    if (indent > 0 && !lines.empty() && !lines.back().text.empty()) {
      LogicalLine& line = lines.back();
      line.text += " ";
      line.segments.push_back({line.text.size(), number, indent + 1});
      absl::StrAppend(&line.text, raw.substr(indent));
    } else {
      lines.push_back({std::string(raw), {{0, number, 1}}});
    }
  }
  return lines;
}

void LineReader::SkipSpace() {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
}

bool LineReader::AtEnd() {
  SkipSpace();
  return at_ >= text_.size();
}

bool LineReader::Sees(absl::string_view token) {
  SkipSpace();
  return text_.substr(at_, token.size()) == token;
}

bool LineReader::Take(absl::string_view token) {
  if (!Sees(token)) return false;
  at_ += token.size();
  return true;
}

bool LineReader::TakeWord(absl::string_view word) {
  const size_t start = at_;
  if (!Take(word)) return false;
  if (at_ < text_.size() && InWord(text_[at_])) {
    at_ = start;
    return false;
  }
  return true;
}

void LineReader::Expect(absl::string_view token) {
  if (ok() && !Take(token)) Fail(absl::StrCat("expected \"", token, "\""));
}

std::string LineReader::WordOf(absl::string_view further) {
  SkipSpace();
  word_ = at_;
  while (at_ < text_.size() && InWord(text_[at_], further)) ++at_;
  if (word_ == at_) Fail("expected a name");
  return std::string(text_.substr(word_, at_ - word_));
}

std::string LineReader::Name(bool* quoted) {
  SkipSpace();
  const bool in_quotes = at_ < text_.size() && text_[at_] == '"';
  if (quoted != nullptr) *quoted = in_quotes;
  if (!in_quotes) return WordOf("./");
  word_ = at_;
  size_t end = at_ + 1;
  while (end < text_.size() && text_[end] != '"') {
    end += text_[end] == '\\' ? 2 : 1;
  }
  std::string name;
  if (end >= text_.size() ||
      !absl::CUnescape(text_.substr(at_ + 1, end - at_ - 1), &name)) {
    Fail("expected a name in quotes");
    return "";
  }
  at_ = end + 1;
  return name;
}

int64_t LineReader::Integer(int64_t least, int64_t most) {
  SkipSpace();
  const size_t start = at_;
  if (at_ < text_.size() && text_[at_] == '-') ++at_;
  while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
  int64_t value = 0;
  word_ = start;
  if (!absl::SimpleAtoi(text_.substr(start, at_ - start), &value)) {
    at_ = start;
    Fail("expected an integer");
  } else if (value < least || value > most) {
    at_ = start;
    Fail(most == std::numeric_limits<int64_t>::max()
             ? absl::StrCat("the number is below ", least)
             : absl::StrCat("the number is not from ", least, " to ", most));
  }
  return value;
}

double LineReader::Real(absl::string_view of) {
  SkipSpace();
  const size_t start = at_;
  at_ = std::min(text_.find_first_of(" ,)}", at_), text_.size());
  double value = 0;
  if (!absl::SimpleAtod(text_.substr(start, at_ - start), &value)) {
    at_ = start;
    Fail(absl::StrCat(of, " takes a number here"));
  }
  return value;
}

std::string LineReader::Position() {
  SkipSpace();
  return line_.Position(at_);
}

void LineReader::FailWord(absl::string_view what, absl::string_view help) {
  if (!status_.ok()) return;
  at_ = word_;
  Fail(what, help);
}

void LineReader::Fail(absl::string_view what, absl::string_view help) {
  if (!status_.ok()) return;
  const absl::string_view rest = text_.substr(std::min(at_, text_.size()));
  status_ = absl::InvalidArgumentError(absl::StrCat(
      line_.Position(at_), ": ", what,
      rest.empty()
          ? " at the end of the line"
          : absl::StrCat(" at \"", absl::CHexEscape(rest.substr(0, 20)), "\""),
      help.empty() ? "" : DetailLine("help", help)));
}

}  // namespace mtf
