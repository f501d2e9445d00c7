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
  bool right = false;  // aligned: numbers
  // Left out where no row has anything in it.
  bool optional = false;
};

// Rows of cells as lines of at most `width` characters, headed by the titles.
// Nothing is ever cut: where the columns do not fit side by side, those that
// are too many go on a second, indented line of each row, then on a third.
//
//   no  collective     bytes
//         tensor             rule
//    1  all_reduce  16777216
//         layer_0/ffn/einsum  d_ff:model
std::string TableText(const std::vector<TableColumn>& columns,
                      const std::vector<std::vector<std::string>>& rows,
                      int width);

// Words broken into lines of at most `width`, all but the first behind
// `indent` blanks; words that are longer themselves are broken too. The first
// line begins at `column`, the last has an end too.
std::string WrappedText(absl::string_view text, int width, int indent,
                        int column = 0);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_TABLE_H_
