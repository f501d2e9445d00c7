// SPDX-License-Identifier: Apache-2.0
// Reads the words and numbers of one line of a program's text.
#ifndef LOWERING_PROGRAM_LINE_READER_H_
#define LOWERING_PROGRAM_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf {

// A line of the text together with the indented lines that continue it.
struct LogicalLine {
  struct Piece {
    size_t begin;   // in `text`
    int number;     // of the line it stands in
    size_t column;  // of its first character
  };
  std::string text;
  std::vector<Piece> pieces;

  // "line 3, column 17" of the character at `at`.
  std::string Place(size_t at) const;
};

// The lines of `text`, those that are indented joined to the one before.
std::vector<LogicalLine> LogicalLines(absl::string_view text);

// A cursor over one logical line, which must outlive it. Every reader either
// succeeds and moves on or records the first problem, INVALID_ARGUMENT with its
// line and column; the caller looks at `status` once at the end.
class LineReader {
 public:
  explicit LineReader(const LogicalLine& line)
      : line_(line), text_(line.text) {}

  bool ok() const { return status_.ok(); }
  int number() const { return line_.pieces[0].number; }
  const absl::Status& status() const { return status_; }

  bool AtEnd();
  // Whether `token` comes next; takes nothing.
  bool Sees(absl::string_view token);
  // Takes `token` if it comes next.
  bool Take(absl::string_view token);
  // Takes the whole word `word` if it comes next.
  bool TakeWord(absl::string_view word);
  void Expect(absl::string_view token);

  // Letters, digits and _-
  std::string Word() { return WordOf(""); }
  // The name of a value, variable, input or output: letters, digits and _-./,
  // or anything in quotes.
  std::string Name(bool* quoted = nullptr);
  // A whole number from `least` to `most`, which the error names.
  int64_t Integer(int64_t least = std::numeric_limits<int64_t>::min(),
                  int64_t most = std::numeric_limits<int64_t>::max());
  // A number. `of` names who takes it, "constant".
  double Real(absl::string_view of);

  // "line 3, column 17" of what comes next.
  std::string Place();
  // `help` says the way out, where `what` does not.
  void Fail(absl::string_view what, absl::string_view help = "");
  // Fails at the last word, name or whole number.
  void FailWord(absl::string_view what, absl::string_view help = "");

 private:
  void SkipSpace();
  std::string WordOf(absl::string_view further);

  const LogicalLine& line_;
  absl::string_view text_;
  size_t at_ = 0;
  size_t word_ = 0;  // where the last word began
  absl::Status status_;
};

}  // namespace mtf

#endif  // LOWERING_PROGRAM_LINE_READER_H_
