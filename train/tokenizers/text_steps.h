// SPDX-License-Identifier: Apache-2.0
//
// The first steps of a tokenizer.json: normalizers, which rewrite a text, and
// pre-tokenizers, which split it into words.
#ifndef TRAIN_TOKENIZERS_TEXT_STEPS_H_
#define TRAIN_TOKENIZERS_TEXT_STEPS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/tokenizers/json_value.h"
#include "train/tokenizers/split_pattern.h"

namespace mtf::train {

// The pattern of Llama 3, which is cl100k's (GPT-4) with another limit of
// repetitions.
inline constexpr absl::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The pattern of Qwen 2, which takes digits one by one.
inline constexpr absl::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Rewrites valid UTF-8 to valid UTF-8.
class TextNormalizer {
 public:
  virtual ~TextNormalizer() = default;
  virtual absl::Status Apply(std::string& text) const = 0;
};

// The normalizer that `json` describes, or null if `json` is missing.
// Supported: Sequence, BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, Strip,
// StripAccents, Prepend, Replace. Others are kUnimplemented, with the key.
absl::StatusOr<std::unique_ptr<TextNormalizer>> ParseNormalizer(
    const JsonValue& json);

// A text and its words. Words do not overlap; bytes between words are dropped.
struct SplitText {
  std::string text;
  std::vector<TextRange> words;
  bool at_start = true;  // whether the user's text begins here
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual absl::Status Apply(SplitText& split) const = 0;
};

// What `json` describes: its steps in order.
struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  // Whether the model reads bytes (ByteLevel) in place of code points.
  bool byte_level = false;
  // Whether no word goes over a line break that no white space follows.
  bool splits_at_line_breaks = false;
};

// Supported: Sequence, ByteLevel as the last step, Split, Digits, Metaspace,
// BertPreTokenizer, Whitespace, WhitespaceSplit, Punctuation. Others are
// kUnimplemented, with the key. No steps if `json` is missing.
absl::StatusOr<PreTokenizers> ParsePreTokenizers(const JsonValue& json);

// The pattern {"String": ...} or {"Regex": ...} of a step.
absl::StatusOr<SplitPattern> ParsePattern(const JsonValue& step);

// kInvalidArgument if sequences are nested so deep that reading them could
// exhaust the stack.
absl::Status CheckNesting(const JsonValue& sequence);

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_TEXT_STEPS_H_
