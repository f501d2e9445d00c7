// SPDX-License-Identifier: Apache-2.0
//
// Splitting the text forms of meshes and layout rules into items, and the form
// of errors about an item.
#ifndef LAYOUTS_TEXT_ITEMS_H_
#define LAYOUTS_TEXT_ITEMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf {

// One item of a text with its position: its line, and the positions of its
// first and last character in the complete text, all counted from 1.
struct TextItem {
  absl::string_view text;
  int line = 1;
  int64_t first = 0;
  int64_t last = 0;

  std::string Characters() const;  // "characters 8-15"
};

// Splits `text` at commas, semicolons, dots and white space. With `comments`,
// "#" starts a comment that ends with its line.
std::vector<TextItem> SplitItems(absl::string_view text, bool comments);

// Whether `name` is a name for mesh axes, presets and machines. The rule is
// that of dimensions, IsDimensionName.
bool IsLayoutName(absl::string_view name);

// The candidate of which `word` is probably a misspelling, or "". Names of
// fewer than three letters are never taken for misspellings, because one edit
// changes any one-letter name into any other; nor are names that differ in
// digits only.
std::string Misspelled(absl::string_view word,
                       const std::vector<std::string>& candidates);

// A user's text as messages show it: escaped, and truncated if it is very long.
std::string Escaped(absl::string_view text);
// Escaped text in quotes.
std::string Quoted(absl::string_view text);

// "3 devices", "1 device".
std::string Plural(int64_t count, absl::string_view word);

// A detail line of an error, to be appended: "\n  mesh     data:2".
std::string DetailLine(absl::string_view label, absl::string_view text);

}  // namespace mtf

#endif  // LAYOUTS_TEXT_ITEMS_H_
