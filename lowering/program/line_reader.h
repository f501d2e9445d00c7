// SPDX-License-Identifier: Apache-2.0
// A cursor over the words and numbers of one line of a program's text.
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
  struct Segment {
    size_t begin;   // in `text`
    int number;     // of the line in the file
    size_t column;  // of its first character
  };
  std::string text;
  std::vector<Segment> segments;

  // "line 3, column 17" for offset `at` in `text`.
  std::string Position(size_t at) const;
};

// The lines of `text`, with indented lines joined to the line before.
std::vector<LogicalLine> LogicalLines(absl::string_view text);

// A cursor over one logical line, which must outlive it. Each method succeeds
// and advances, or records the first error, kInvalidArgument with line and
// column. The caller checks `status` once at the end.
class LineReader {
 public:
  explicit LineReader(const LogicalLine& line)
      : line_(line), text_(line.text) {}

  bool ok() const { return status_.ok(); }
  int number() const { return line_.segments[0].number; }
  const absl::Status& status() const { return status_; }

  bool AtEnd();
  // Whether `token` comes next; does not advance.
  bool Sees(absl::string_view token);
  // Takes `token` if it comes next.
  bool Take(absl::string_view token);
  // Takes `word` if it comes next and no word character follows.
  bool TakeWord(absl::string_view word);
  void Expect(absl::string_view token);

  // Letters, digits and _-
  std::string Word() { return WordOf(""); }
  // A pattern of scopes: letters, digits and _-*/
  std::string Pattern() { return WordOf("*/"); }
  // The name of a value, variable, input or output: letters, digits and _-./,
  // or anything in quotes.
  std::string Name(bool* quoted = nullptr);
  // An integer from `least` to `most`; the error states the limit.
  int64_t Integer(int64_t least = std::numeric_limits<int64_t>::min(),
                  int64_t most = std::numeric_limits<int64_t>::max());
  // A number of the instruction `of`, "constant".
  double Real(absl::string_view of);

  // "line 3, column 17" of what comes next.
  std::string Position();
  // `help` says how to fix the text, if `what` does not.
  void Fail(absl::string_view what, absl::string_view help = "");
  // Fails at the last word, name or integer.
  void FailWord(absl::string_view what, absl::string_view help = "");

 private:
  void SkipSpace();
  std::string WordOf(absl::string_view further);

  const LogicalLine& line_;
  absl::string_view text_;
  size_t at_ = 0;
  size_t word_ = 0;  // begin of the last word
  absl::Status status_;
};

}  // namespace mtf

#endif  // LOWERING_PROGRAM_LINE_READER_H_
