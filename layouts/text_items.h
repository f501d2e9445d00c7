// SPDX-License-Identifier: Apache-2.0
//
// What the text forms of meshes and of layout rules share: how they are cut
// into items and how a complaint about an item reads.
#ifndef LAYOUTS_TEXT_ITEMS_H_
#define LAYOUTS_TEXT_ITEMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf {

// One item of a text, and where it stands: its line and the places of its
// first and last character in the whole text, all counted from 1.
struct TextItem {
  absl::string_view text;
  int line = 1;
  int64_t first = 0;
  int64_t last = 0;

  std::string Characters() const;  // "characters 8-15"
};

// Cuts `text` at commas, semicolons, dots and white space; with `comments`,
// "#" starts a comment that ends with its line.
std::vector<TextItem> SplitItems(absl::string_view text, bool comments);

// True for a name made of letters, digits, "_" and "-", as Shape demands.
bool IsLayoutName(absl::string_view name);

// A user's text as messages show it: escaped, and cut when it is very long.
std::string Escaped(absl::string_view text);
// The same with quotes around it.
std::string Quoted(absl::string_view text);

// "3 devices", "1 device".
std::string Plural(int64_t count, absl::string_view word);

// A line below the first of an error: "\n  mesh     data:2".
std::string DetailLine(absl::string_view label, absl::string_view text);

}  // namespace mtf

#endif  // LAYOUTS_TEXT_ITEMS_H_
