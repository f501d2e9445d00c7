// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EXPLAIN_TABLE_H_
#define LOWERING_EXPLAIN_TABLE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mtf::internal {

// A column of a table and what may be done to it where the table is too wide.
struct TableColumn {
  std::string title;
  bool right = false;  // aligned: numbers
  // Cells may be shortened to this many characters before a column is left
  // out, and further where none can be; 0: never.
  int narrowest = 0;
  // Columns of a higher number are left out first, and any whose cells are all
  // empty or "1"; 0: never.
  int optional = 0;
};

// Rows of cells as lines of at most `width` characters, headed by the titles.
// A table that is too wide has its longest names shortened first, then columns
// left out, and only then its lines cut.
std::string TableText(const std::vector<TableColumn>& columns,
                      const std::vector<std::vector<std::string>>& rows,
                      int width);

// A name shortened to at most `width` characters, its middle replaced by "..":
// the ends tell more.
std::string Shortened(absl::string_view name, int width);

// Words broken into lines of at most `width`, all but the first behind
// `indent` blanks. The last line has an end too.
std::string WrappedText(absl::string_view text, int width, int indent);

}  // namespace mtf::internal

#endif  // LOWERING_EXPLAIN_TABLE_H_
