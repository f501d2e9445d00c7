// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_EXPLAIN_EXPLAIN_TABLE_H_
#define PLANNING_EXPLAIN_EXPLAIN_TABLE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mtf::internal {

// A column of a table.
struct TableColumn {
  std::string title;
  bool right = false;  // right-aligned, for numbers
  // Omitted if its cells are empty in all rows.
  bool optional = false;
};

// Formats rows of cells below a line of titles, in lines of at most `width`
// characters. Nothing is truncated: columns that do not fit on the first line
// of a row continue on further, indented lines.
//
//   no  collective     bytes
//         tensor             rule
//    1  all_reduce  16777216
//         layer_0/ffn/einsum  d_ff:model
std::string TableText(const std::vector<TableColumn>& columns,
                      const std::vector<std::vector<std::string>>& rows,
                      int width);

// Wraps `text` at blanks into lines of at most `width` characters, breaking
// words that are longer. Lines after the first are indented by `indent` blanks;
// the first is assumed to begin at `column`. The result ends with a newline.
std::string WrappedText(absl::string_view text, int width, int indent,
                        int column = 0);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_TABLE_H_
