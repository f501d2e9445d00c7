// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/tokenizers/unicode_text.h"

namespace mtf::train {
namespace {

constexpr size_t kMostPatternBytes = 1 << 14;
// Far above what the patterns of published models need for one match, and some
// seconds for one that backtracks without end.
constexpr uint32_t kMostSteps = 50'000'000;
constexpr uint32_t kMostHeapKib = 1 << 18;

// What the classes mean to Oniguruma, as the inside of a class of PCRE2. The
// ranges of \w are symbols that count as alphabetic.
constexpr absl::string_view kSpaces = R"(\t-\r\x{85}\p{Z})";
constexpr absl::string_view kWordCharacters =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149})"
    R"(\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

absl::Status PatternError(absl::StatusCode code, absl::string_view pattern,
                          absl::string_view problem) {
  return absl::Status(
      code, absl::StrCat("pattern ", Quoted(pattern), " ", problem,
                         DetailLine("help",
                                    "tokenize with the model's own library "
                                    "and train on the file of tokens")));
}

// Reads a pattern from left to right and writes it for PCRE2.
class PatternTranslator {
 public:
  explicit PatternTranslator(absl::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Translate() {
    while (at_ < pattern_.size()) {
      MTF_RETURN_IF_ERROR(Next());
    }
    return std::move(result_);
  }

 private:
  absl::string_view Rest() const { return pattern_.substr(at_); }
  void Copy(size_t bytes) {
    absl::StrAppend(&result_, Rest().substr(0, bytes));
    at_ = std::min(pattern_.size(), at_ + bytes);
  }
  absl::Status Unsupported(absl::string_view what) const {
    return PatternError(absl::StatusCode::kUnimplemented, pattern_,
                        absl::StrCat("has ", Quoted(what), " at byte ", at_,
                                     ", which is not supported"));
  }

  absl::Status Next() {
    const char c = pattern_[at_];
    if (c == '\\') return Escape();
    if (in_class_) {
      if (absl::StartsWith(Rest(), "&&") || absl::StartsWith(Rest(), "[:")) {
        return Unsupported(Rest().substr(0, 2));
      }
      if (c == '[') return NestedClass();
      if (c == ']') in_class_ = false;
    } else if (c == '[') {
      in_class_ = true;
      Copy(1);
      if (absl::StartsWith(Rest(), "^")) Copy(1);
      if (absl::StartsWith(Rest(), "]")) return Unsupported("]");
      return absl::OkStatus();
    } else if (absl::StartsWith(Rest(), "(?")) {
      return Group();
    }
    Copy(1);
    return absl::OkStatus();
  }

  // Oniguruma reads [\p{L}[\p{M}]] as a union, of which only the inner brackets
  // need to go.
  absl::Status NestedClass() {
    const size_t end = Rest().find(']');
    const absl::string_view inner = Rest().substr(0, end);
    if (end == absl::string_view::npos || inner.size() < 2 || inner[1] == '^' ||
        absl::StrContains(inner.substr(1), "[")) {
      return Unsupported("[");
    }
    at_ += 1;
    while (pattern_[at_] != ']') {
      if (pattern_[at_] == '\\') {
        MTF_RETURN_IF_ERROR(Escape());
      } else {
        Copy(1);
      }
      if (at_ >= pattern_.size()) return Unsupported("[");
    }
    at_ += 1;
    return absl::OkStatus();
  }

  absl::Status Group() {
    for (const absl::string_view start :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)"}) {
      if (!absl::StartsWith(Rest(), start)) continue;
      Copy(start.size());
      return absl::OkStatus();
    }
    return Unsupported(Rest().substr(0, 3));
  }

  absl::Status Escape() {
    const absl::string_view rest = Rest();
    if (rest.size() < 2) {
      return PatternError(absl::StatusCode::kInvalidArgument, pattern_,
                          "ends with a backslash");
    }
    const char c = rest[1];
    if (c == 's' || c == 'S') return Class(kSpaces, c == 'S');
    if (c == 'w' || c == 'W') return Class(kWordCharacters, c == 'W');
    if (c == 'p' || c == 'P') return Property();
    if (c == 'u') return CodeUnit();
    // \v is all vertical space to PCRE2, and one character to Oniguruma.
    const bool known =
        absl::StrContains("dDrntfxA", absl::string_view(&c, 1)) ||
        !IsAlphanumeric(c);
    if (!known) return Unsupported(rest.substr(0, 2));
    Copy(2);
    return absl::OkStatus();
  }

  static bool IsAlphanumeric(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           (c >= 'a' && c <= 'z');
  }

  absl::Status Class(absl::string_view members, bool negated) {
    if (in_class_ && negated) return Unsupported(Rest().substr(0, 2));
    at_ += 2;
    if (in_class_) {
      absl::StrAppend(&result_, members);
    } else {
      absl::StrAppend(&result_, negated ? "[^" : "[", members, "]");
    }
    return absl::OkStatus();
  }

  // \p{Han} is the script to Oniguruma, and its extensions to PCRE2. Names of
  // categories have one or two letters.
  absl::Status Property() {
    const size_t end = Rest().find('}');
    if (Rest().size() < 4 || Rest()[2] != '{' ||
        end == absl::string_view::npos) {
      return Unsupported(Rest().substr(0, 2));
    }
    absl::string_view name = Rest().substr(3, end - 3);
    const bool negated = absl::StartsWith(name, "^");
    if (negated) name.remove_prefix(1);
    const bool script = name.size() > 2 && !absl::StrContains(name, "=") &&
                        !absl::StrContains(name, ":");
    absl::StrAppend(&result_, Rest().substr(0, 3), negated ? "^" : "",
                    script ? "sc:" : "", name, "}");
    at_ += end + 1;
    return absl::OkStatus();
  }

  // \u00A0 is \x{00A0} to PCRE2.
  absl::Status CodeUnit() {
    if (Rest().size() < 6) return Unsupported(Rest().substr(0, 2));
    absl::StrAppend(&result_, "\\x{", Rest().substr(2, 4), "}");
    at_ += 6;
    return absl::OkStatus();
  }

  absl::string_view pattern_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string result_;
};

std::shared_ptr<const pcre2_real_code_8> OwnedCode(pcre2_code* code) {
  return std::shared_ptr<const pcre2_real_code_8>(
      code, [](const pcre2_code* owned) {
        pcre2_code_free(const_cast<pcre2_code*>(owned));
      });
}

// Compiles what TranslatePattern wrote; errors quote `original`.
absl::StatusOr<std::shared_ptr<const pcre2_real_code_8>> CompileCode(
    absl::string_view translated, absl::string_view original,
    uint32_t options) {
  if (original.size() > kMostPatternBytes || !IsValidUtf8(original)) {
    return PatternError(absl::StatusCode::kInvalidArgument,
                        original.substr(0, 80),
                        absl::StrCat("is not UTF-8, or longer than ",
                                     kMostPatternBytes, " bytes"));
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      options | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code == nullptr) {
    char message[256] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message),
                            sizeof(message));
    return PatternError(absl::StatusCode::kInvalidArgument, original,
                        absl::StrCat("is not a regular expression: ", message,
                                     " at byte ", offset));
  }
  // Without machine code, on processors that PCRE2 has none for, the pattern is
  // interpreted.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return OwnedCode(code);
}

struct MatchState {
  MatchState(const pcre2_code* code)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    if (context == nullptr) return;
    pcre2_set_match_limit(context, kMostSteps);
    pcre2_set_heap_limit(context, kMostHeapKib);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;
  ~MatchState() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  pcre2_match_data* data;
  pcre2_match_context* context;
};

// The number of groups of the first match at or after `at`, or a negative error
// of PCRE2. The subject is known to be valid UTF-8.
int MatchAt(const pcre2_code* code, absl::string_view subject, size_t at,
            MatchState& state) {
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(subject.data());
  int result = pcre2_match(code, bytes, subject.size(), at, PCRE2_NO_UTF_CHECK,
                           state.data, state.context);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    result = pcre2_match(code, bytes, subject.size(), at,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, state.data,
                         state.context);
  }
  return result;
}

}  // namespace

absl::StatusOr<std::string> TranslatePattern(absl::string_view pattern) {
  return PatternTranslator(pattern).Translate();
}

absl::StatusOr<SplitPattern> SplitPattern::Compile(absl::string_view pattern) {
  MTF_ASSIGN_OR_RETURN(const std::string translated, TranslatePattern(pattern));
  MTF_ASSIGN_OR_RETURN(
      auto code, CompileCode(translated, pattern, PCRE2_UCP | PCRE2_MULTILINE));
  return SplitPattern(std::move(code));
}

absl::StatusOr<SplitPattern> SplitPattern::CompileLiteral(
    absl::string_view text) {
  MTF_ASSIGN_OR_RETURN(auto code, CompileCode(text, text, PCRE2_LITERAL));
  return SplitPattern(std::move(code));
}

absl::Status SplitPattern::FindAll(absl::string_view text, TextRange range,
                                   std::vector<TextRange>& matches) const {
  MatchState state(code_.get());
  if (state.data == nullptr || state.context == nullptr) {
    return absl::ResourceExhaustedError("no memory to match a pattern");
  }
  const absl::string_view subject = text.substr(range.begin, range.size());
  constexpr size_t kNone = ~size_t{0};
  size_t at = 0, last_end = kNone;
  while (at <= subject.size()) {
    const int result = MatchAt(code_.get(), subject, at, state);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      char message[256] = "";
      pcre2_get_error_message(result, reinterpret_cast<PCRE2_UCHAR*>(message),
                              sizeof(message));
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot split a text of ", subject.size(),
                       " bytes at byte ", at, ": ", message,
                       DetailLine("help", "encode the text in shorter parts")));
    }
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(state.data);
    const size_t begin = found[0], end = found[1];
    if (end > begin || begin != last_end) {
      matches.push_back({static_cast<uint32_t>(range.begin + begin),
                         static_cast<uint32_t>(range.begin + end)});
      last_end = end;
    }
    // After an empty match the search goes on at the next character.
    at = end;
    if (end == begin)
      at += end < subject.size() ? DecodeUtf8(subject, end).bytes : 1;
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
