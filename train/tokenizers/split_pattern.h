// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_SPLIT_PATTERN_H_
#define TRAIN_TOKENIZERS_SPLIT_PATTERN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct pcre2_real_code_8;

namespace mtf::train {

// A range of bytes of a text.
struct TextRange {
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t size() const { return end - begin; }
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

// The pattern by which GPT-2 splits a text into words.
inline constexpr absl::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A regular expression of a tokenizer file, compiled by PCRE2 to machine code.
// The files are written for Oniguruma, so its classes are translated: \s is the
// property White_Space, \w a letter, mark, digit or connector, ^ and $ match at
// lines. Syntax that the two read differently is an error.
class SplitPattern {
 public:
  // kInvalidArgument if `pattern` is not a regular expression, kUnimplemented
  // for syntax that is not supported; both with the pattern.
  static absl::StatusOr<SplitPattern> Compile(absl::string_view pattern);
  // A pattern that matches `text` only.
  static absl::StatusOr<SplitPattern> CompileLiteral(absl::string_view text);

  // Appends the matches within `range` of valid UTF-8, from left to right and
  // without overlap. An empty match counts, unless it follows the end of the
  // previous match. The text around `range` is not seen.
  //
  // kResourceExhausted if the pattern takes too many steps for this text.
  absl::Status FindAll(absl::string_view text, TextRange range,
                       std::vector<TextRange>& matches) const;

 private:
  explicit SplitPattern(std::shared_ptr<const pcre2_real_code_8> code)
      : code_(std::move(code)) {}

  std::shared_ptr<const pcre2_real_code_8> code_;
};

// Rewrites the classes of an Oniguruma pattern for PCRE2.
absl::StatusOr<std::string> TranslatePattern(absl::string_view pattern);

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_SPLIT_PATTERN_H_
