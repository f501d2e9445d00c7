// SPDX-License-Identifier: Apache-2.0
#include "planning/explain/explain_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mtf::internal {
namespace {

constexpr int kGap = 2;
constexpr int kIndent = 6;  // of the lines after the first

class Table {
 public:
  Table(const std::vector<TableColumn>& columns,
        const std::vector<std::vector<std::string>>& rows, int width)
      : columns_(columns), rows_(rows), width_(width) {
    Measure();
    Arrange();
  }

  std::string Text() const {
    std::vector<std::string> titles;
    for (const TableColumn& column : columns_) titles.push_back(column.title);
    std::string text = Row(titles);
    for (const auto& row : rows_) text += Row(row);
    return text;
  }

 private:
  // Indices of the columns on one line of a row.
  using Line = std::vector<size_t>;

  // Sets the width of each column to that of its widest cell.
  void Measure() {
    for (size_t c = 0; c < columns_.size(); ++c) {
      size_t widest = 0;
      for (const auto& row : rows_) widest = std::max(widest, row[c].size());
      const bool shown = widest > 0 || !columns_[c].optional;
      widest = std::max(widest, columns_[c].title.size());
      widths_.push_back(shown ? static_cast<int>(widest) : 0);
    }
  }

  // Distributes the columns over lines of at most `width_` characters.
  void Arrange() {
    int used = width_ + 1;  // no line yet
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (widths_[c] == 0) continue;
      if (used + kGap + widths_[c] > width_) {
        used = lines_.empty() ? 0 : kIndent;
        lines_.emplace_back();
      } else {
        used += kGap;
      }
      used += widths_[c];
      lines_.back().push_back(c);
    }
  }

  std::string Row(const std::vector<std::string>& cells) const {
    std::string text;
    for (size_t l = 0; l < lines_.size(); ++l) {
      const int indent = l == 0 ? 0 : kIndent;
      std::string line(indent, ' ');
      for (size_t c : lines_[l]) {
        const std::string padding(widths_[c] - cells[c].size(), ' ');
        if (c != lines_[l][0]) line.append(kGap, ' ');
        absl::StrAppend(&line, columns_[c].right ? padding : "", cells[c],
                        columns_[c].right ? "" : padding);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      // Omit empty continuation lines.
      if (line.empty() && l > 0) continue;
      if (static_cast<int>(line.size()) > width_) {
        // A single cell that is too wide: wrap its text.
        text += std::string(indent, ' ') +
                WrappedText(cells[lines_[l][0]], width_, indent + kGap, indent);
      } else {
        text += line + "\n";
      }
    }
    return text;
  }

  const std::vector<TableColumn>& columns_;
  const std::vector<std::vector<std::string>>& rows_;
  const int width_;
  std::vector<int> widths_;  // 0: omitted
  std::vector<Line> lines_;
};

}  // namespace

std::string TableText(const std::vector<TableColumn>& columns,
                      const std::vector<std::vector<std::string>>& rows,
                      int width) {
  return Table(columns, rows, width).Text();
}

std::string WrappedText(absl::string_view text, int width, int indent,
                        int column) {
  std::string wrapped;
  bool is_first = true;
  const auto new_line = [&] {
    absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
    column = indent;
  };
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!is_first) {
      if (column + 1 + static_cast<int>(word.size()) > width) {
        new_line();
      } else {
        wrapped += ' ';
        ++column;
      }
    }
    is_first = false;
    while (column + static_cast<int>(word.size()) > width) {
      const int room = width - column;
      wrapped.append(word.data(), room);
      word.remove_prefix(room);
      new_line();
    }
    wrapped.append(word.data(), word.size());
    column += static_cast<int>(word.size());
  }
  return wrapped + "\n";
}

}  // namespace mtf::internal
