// SPDX-License-Identifier: Apache-2.0
#include "layouts/text_items.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "mtf/shape.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// Messages truncate longer texts, which could fill the screen.
constexpr size_t kMostCharacters = 200;

bool IsSeparator(char c) {
  return c == ',' || c == ';' || c == '.' ||
         absl::ascii_isspace(static_cast<unsigned char>(c));
}

// A name with each digit replaced by 0. "b1" and "b2" are different names,
// never misspellings of each other.
std::string WithoutDigits(absl::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c >= '0' && c <= '9') c = '0';
  }
  return text;
}

}  // namespace

std::string TextItem::Characters() const {
  if (first == last) return absl::StrCat("character ", first);
  return absl::StrCat("characters ", first, "-", last);
}

std::vector<TextItem> SplitItems(absl::string_view text, bool comments) {
  std::vector<TextItem> items;
  int line = 1;
  size_t i = 0;
  while (i < text.size()) {
    if (text[i] == '\n') ++line;
    if (IsSeparator(text[i])) {
      ++i;
      continue;
    }
    if (comments && text[i] == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && !IsSeparator(text[i]) &&
           !(comments && text[i] == '#')) {
      ++i;
    }
    items.push_back({text.substr(begin, i - begin), line,
                     static_cast<int64_t>(begin + 1), static_cast<int64_t>(i)});
  }
  return items;
}

bool IsLayoutName(absl::string_view name) { return IsDimensionName(name); }

std::string Escaped(absl::string_view text) {
  if (text.size() <= kMostCharacters) return absl::CHexEscape(text);
  return absl::StrCat(absl::CHexEscape(text.substr(0, kMostCharacters)), "...");
}

std::string Misspelled(absl::string_view word,
                       const std::vector<std::string>& candidates) {
  std::vector<std::string> plausible;
  for (const std::string& candidate : candidates) {
    if (std::min(word.size(), candidate.size()) >= 3 &&
        WithoutDigits(word) != WithoutDigits(candidate)) {
      plausible.push_back(candidate);
    }
  }
  return NearestName(word, plausible);
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", Escaped(text), "\"");
}

std::string Plural(int64_t count, absl::string_view word) {
  return absl::StrCat(count, " ", word, count == 1 ? "" : "s");
}

std::string DetailLine(absl::string_view label, absl::string_view text) {
  std::string padded(label);
  padded.resize(std::max<size_t>(label.size() + 1, 9), ' ');
  return absl::StrCat("\n  ", padded, text);
}

}  // namespace mtf
