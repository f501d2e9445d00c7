// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/unicode_text.h"

#include <utf8proc.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"

namespace mtf::train {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

bool IsBetween(unsigned char byte, int low, int high) {
  return byte >= low && byte <= high;
}

// The bytes of the longest prefix of `text` that begins a code point, and
// whether it is a complete one. At least one byte.
struct Sequence {
  size_t bytes = 1;
  bool complete = false;
};

// Table 3-7 of the Unicode standard: only the second byte has a range of its
// own, which excludes overlong forms, surrogates and values above U+10FFFF.
Sequence FirstSequence(absl::string_view text) {
  const unsigned char lead = text[0];
  if (lead < 0x80) return {1, true};
  size_t size = 0;
  int low = 0x80, high = 0xBF;
  if (IsBetween(lead, 0xC2, 0xDF)) {
    size = 2;
  } else if (IsBetween(lead, 0xE0, 0xEF)) {
    size = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (IsBetween(lead, 0xF0, 0xF4)) {
    size = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  for (size_t i = 1; i < size; ++i) {
    if (i == text.size() || !IsBetween(text[i], low, high)) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {size, true};
}

// The bytes at the beginning of `text` that are ASCII, to a multiple of 8.
size_t AsciiBytes(absl::string_view text) {
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080) != 0) break;
  }
  return at;
}

// The bytes at the beginning of `text` that are valid.
size_t ValidBytes(absl::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    at += AsciiBytes(text.substr(at));
    if (at == text.size()) break;
    const Sequence next = FirstSequence(text.substr(at));
    if (!next.complete) break;
    at += next.bytes;
  }
  return at;
}

utf8proc_category_t Category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

}  // namespace

CodePoint DecodeUtf8(absl::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[at + i]);
  };
  const auto tail = [&](size_t i) { return byte(i) & 0x3FU; };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | tail(1), 2};
  if (lead < 0xF0) return {(lead & 0xF) << 12 | tail(1) << 6 | tail(2), 3};
  return {(lead & 7) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

void AppendUtf8(char32_t code, std::string& text) {
  const auto tail = [&](int shift) {
    text.push_back(static_cast<char>(0x80 | (code >> shift & 0x3F)));
  };
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    text.push_back(static_cast<char>(0xC0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

bool IsAscii(absl::string_view text) {
  for (size_t i = AsciiBytes(text); i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80) return false;
  }
  return true;
}

bool IsValidUtf8(absl::string_view text) {
  return ValidBytes(text) == text.size();
}

std::string ReplaceInvalidUtf8(absl::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = ValidBytes(text);
    absl::StrAppend(&result, text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    absl::StrAppend(&result, kReplacement);
    text.remove_prefix(FirstSequence(text).bytes);
  }
  return result;
}

bool IsWhiteSpace(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  if (code < 0x2000) return code == 0x85 || code == 0xA0 || code == 0x1680;
  return code <= 0x200A || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

bool IsPunctuation(char32_t code) {
  if (code < 0x80) {
    return code > ' ' && code < 0x7F && !(code >= '0' && code <= '9') &&
           !(code >= 'A' && code <= 'Z') && !(code >= 'a' && code <= 'z');
  }
  const utf8proc_category_t category = Category(code);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool IsNumeric(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  const utf8proc_category_t category = Category(code);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsMark(char32_t code) {
  if (code < 0x300) return false;
  const utf8proc_category_t category = Category(code);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool IsWordCharacter(char32_t code) {
  const auto between = [&](char32_t low, char32_t high) {
    return code >= low && code <= high;
  };
  // Joiners, and symbols that count as alphabetic.
  if (between(0x200C, 0x200D) || between(0x24B6, 0x24E9) ||
      between(0x1F130, 0x1F149) || between(0x1F150, 0x1F169) ||
      between(0x1F170, 0x1F189)) {
    return true;
  }
  const utf8proc_category_t category = Category(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_PC &&
         category != UTF8PROC_CATEGORY_NO;
}

bool IsNonSpacingMark(char32_t code) {
  return code >= 0x300 && Category(code) == UTF8PROC_CATEGORY_MN;
}

bool IsControlOrFormat(char32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7F;
  const utf8proc_category_t category = Category(code);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

bool IsIdeograph(char32_t code) {
  const auto between = [&](char32_t low, char32_t high) {
    return code >= low && code <= high;
  };
  // The sixth range begins at U+2B820 in the Unicode standard; 0x2B920 is that
  // of the reference implementation.
  return code >= 0x3400 &&
         (between(0x4E00, 0x9FFF) || between(0x3400, 0x4DBF) ||
          between(0x20000, 0x2A6DF) || between(0x2A700, 0x2B73F) ||
          between(0x2B740, 0x2B81F) || between(0x2B920, 0x2CEAF) ||
          between(0xF900, 0xFAFF) || between(0x2F800, 0x2FA1F));
}

std::string LowerCase(absl::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = DecodeUtf8(text, at);
    at += point.bytes;
    if (point.code < 0x80) {
      const bool upper = point.code >= 'A' && point.code <= 'Z';
      result.push_back(static_cast<char>(point.code + (upper ? 32 : 0)));
    } else if (point.code == 0x130) {
      // The only code point whose full lower case has two.
      absl::StrAppend(&result, "i\xCC\x87");
    } else {
      AppendUtf8(static_cast<char32_t>(utf8proc_tolower(
                     static_cast<utf8proc_int32_t>(point.code))),
                 result);
    }
  }
  return result;
}

absl::StatusOr<std::string> NormalizeUnicode(absl::string_view text,
                                             NormalForm form) {
  if (IsAscii(text)) return std::string(text);
  int options = UTF8PROC_STABLE;
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) {
    options |= UTF8PROC_COMPAT;
  }
  utf8proc_uint8_t* normalized = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &normalized,
                   static_cast<utf8proc_option_t>(options));
  if (size < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot normalize a text of ", text.size(),
                     " bytes: ", utf8proc_errmsg(size),
                     DetailLine("help", "encode the text in shorter parts")));
  }
  std::string result(reinterpret_cast<const char*>(normalized), size);
  std::free(normalized);
  return result;
}

}  // namespace mtf::train
