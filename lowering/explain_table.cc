// SPDX-License-Identifier: Apache-2.0
#include "lowering/explain_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mtf::internal {
namespace {

constexpr int kGap = 2;

class Table {
 public:
  Table(const std::vector<TableColumn>& columns,
        const std::vector<std::vector<std::string>>& rows)
      : columns_(columns), rows_(rows), shown_(columns.size(), true) {
    for (size_t c = 0; c < columns.size(); ++c) {
      shown_[c] = columns[c].optional == 0 || SaysSomething(c);
    }
    Measure();
  }

  void Fit(int width) {
    while (Width() > width) {
      if (Narrow(Width() - width) || LeaveOut()) continue;
      // Nothing is left but to make names hard to read.
      if (hard_) return;
      hard_ = true;
    }
  }

  std::string Text(int width) const {
    std::string text = Line(Titles(), width);
    for (const auto& row : rows_) text += Line(row, width);
    return text;
  }

 private:
  // A column of nothing, or of single calls alone, does not.
  bool SaysSomething(size_t c) const {
    return std::any_of(rows_.begin(), rows_.end(), [c](const auto& row) {
      return !row[c].empty() && row[c] != "1";
    });
  }

  // The columns as wide as they would like to be.
  void Measure() {
    widths_.assign(columns_.size(), 0);
    for (size_t c = 0; c < columns_.size(); ++c) {
      size_t most = columns_[c].title.size();
      for (const auto& row : rows_) most = std::max(most, row[c].size());
      widths_[c] = static_cast<int>(most);
    }
  }

  std::vector<std::string> Titles() const {
    std::vector<std::string> titles;
    for (const TableColumn& column : columns_) titles.push_back(column.title);
    return titles;
  }

  int Width() const {
    int width = -kGap;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (shown_[c]) width += widths_[c] + kGap;
    }
    return width;
  }

  int Narrowest(size_t c) const {
    return std::max(hard_ ? 6 : columns_[c].narrowest,
                    static_cast<int>(columns_[c].title.size()));
  }

  // Takes up to `excess` from the widest column that may be shortened, down to
  // the next widest.
  bool Narrow(int excess) {
    int widest = -1, second = 0;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (!shown_[c] || columns_[c].narrowest == 0 ||
          widths_[c] <= Narrowest(c)) {
        continue;
      }
      if (widest < 0 || widths_[c] > widths_[widest]) {
        if (widest >= 0) second = widths_[widest];
        widest = static_cast<int>(c);
      } else {
        second = std::max(second, widths_[c]);
      }
    }
    if (widest < 0) return false;
    const int least = std::max(Narrowest(widest), second - 1);
    widths_[widest] = std::max(least, widths_[widest] - excess);
    return true;
  }

  bool LeaveOut() {
    int out = -1;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (shown_[c] && columns_[c].optional > 0 &&
          (out < 0 || columns_[c].optional > columns_[out].optional)) {
        out = static_cast<int>(c);
      }
    }
    if (out < 0) return false;
    // What was shortened to make room for it may be longer again.
    shown_[out] = false;
    Measure();
    return true;
  }

  std::string Line(const std::vector<std::string>& cells, int width) const {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (!shown_[c]) continue;
      const std::string cell = Shortened(cells[c], widths_[c]);
      const std::string padding(widths_[c] - cell.size(), ' ');
      absl::StrAppend(&line, line.empty() ? "" : std::string(kGap, ' '),
                      columns_[c].right ? padding : "", cell,
                      columns_[c].right ? "" : padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (static_cast<int>(line.size()) > width) line.resize(width);
    return line + "\n";
  }

  const std::vector<TableColumn>& columns_;
  const std::vector<std::vector<std::string>>& rows_;
  std::vector<bool> shown_;
  std::vector<int> widths_;
  bool hard_ = false;
};

}  // namespace

std::string TableText(const std::vector<TableColumn>& columns,
                      const std::vector<std::vector<std::string>>& rows,
                      int width) {
  Table table(columns, rows);
  table.Fit(width);
  return table.Text(width);
}

std::string Shortened(absl::string_view name, int width) {
  if (static_cast<int>(name.size()) <= width) return std::string(name);
  if (width < 5) return std::string(name.substr(0, std::max(width, 0)));
  const int front = (width - 2) / 2, back = width - 2 - front;
  return absl::StrCat(name.substr(0, front), "..",
                      name.substr(name.size() - back));
}

std::string WrappedText(absl::string_view text, int width, int indent) {
  std::string wrapped;
  int column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const int length = static_cast<int>(word.size());
    if (column > 0 && column + 1 + length > width) {
      absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
      column = indent;
    } else if (column > 0) {
      wrapped += ' ';
      ++column;
    }
    wrapped.append(word.data(), word.size());
    column += length;
  }
  return wrapped + "\n";
}

}  // namespace mtf::internal
