// SPDX-License-Identifier: Apache-2.0
//
// What tokenizers need of Unicode, after the data of utf8proc: code points of
// UTF-8 text, the classes that Rust's and Hugging Face's tokenizers split at,
// normalization and lower case.
#ifndef TRAIN_TOKENIZERS_UNICODE_TEXT_H_
#define TRAIN_TOKENIZERS_UNICODE_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

// A code point and the number of bytes that it takes in UTF-8.
struct CodePoint {
  char32_t code = 0;
  int bytes = 1;
};

// The code point of valid UTF-8 that begins at byte `at`, below text.size().
CodePoint DecodeUtf8(absl::string_view text, size_t at);
void AppendUtf8(char32_t code, std::string& text);

bool IsAscii(absl::string_view text);
bool IsValidUtf8(absl::string_view text);

// Replaces each maximal invalid sequence by U+FFFD, as Python's and Rust's
// decoders do: "\xE2\x82(" becomes "\uFFFD(".
std::string ReplaceInvalidUtf8(absl::string_view text);

bool IsWhiteSpace(char32_t code);   // the property White_Space
bool IsPunctuation(char32_t code);  // categories P, and ASCII symbols
bool IsNumeric(char32_t code);      // categories N
bool IsMark(char32_t code);         // categories M
// Letters, marks, digits, connectors and joiners: \w of Rust's expressions.
bool IsWordCharacter(char32_t code);
bool IsNonSpacingMark(char32_t code);
// Control and format characters and private use: what BERT removes.
bool IsControlOrFormat(char32_t code);
// CJK ideographs, between which BERT puts spaces.
bool IsIdeograph(char32_t code);

// The full lower case of every code point by itself, so that no context, such
// as that of a final sigma, matters.
std::string LowerCase(absl::string_view text);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Normalizes valid UTF-8. kResourceExhausted if there is not enough memory.
absl::StatusOr<std::string> NormalizeUnicode(absl::string_view text,
                                             NormalForm form);

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_UNICODE_TEXT_H_
