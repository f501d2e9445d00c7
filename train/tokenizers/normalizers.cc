// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "mtf/status.h"
#include "train/tokenizers/text_steps.h"
#include "train/tokenizers/unicode_text.h"

namespace mtf::train {
namespace {

// Calls `visit` with every code point of `text` and the text it writes to.
template <class Visit>
void RewriteCodePoints(std::string& text, Visit visit) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = DecodeUtf8(text, at);
    visit(point.code, absl::string_view(text).substr(at, point.bytes), result);
    at += point.bytes;
  }
  text = std::move(result);
}

template <class Predicate>
void RemoveCodePoints(std::string& text, Predicate removed) {
  if (IsAscii(text)) return;  // only marks are removed
  RewriteCodePoints(
      text, [&](char32_t code, absl::string_view bytes, std::string& result) {
        if (!removed(code)) absl::StrAppend(&result, bytes);
      });
}

// A normalizer that is a function.
class FunctionNormalizer final : public TextNormalizer {
 public:
  using Function = std::function<absl::Status(std::string&)>;
  explicit FunctionNormalizer(Function function)
      : function_(std::move(function)) {}
  absl::Status Apply(std::string& text) const override {
    return function_(text);
  }

 private:
  Function function_;
};

using Made = absl::StatusOr<std::unique_ptr<TextNormalizer>>;

std::unique_ptr<TextNormalizer> Make(FunctionNormalizer::Function function) {
  return std::make_unique<FunctionNormalizer>(std::move(function));
}

class NormalizerSequence final : public TextNormalizer {
 public:
  explicit NormalizerSequence(
      std::vector<std::unique_ptr<TextNormalizer>> steps)
      : steps_(std::move(steps)) {}
  absl::Status Apply(std::string& text) const override {
    for (const auto& step : steps_) MTF_RETURN_IF_ERROR(step->Apply(text));
    return absl::OkStatus();
  }

 private:
  std::vector<std::unique_ptr<TextNormalizer>> steps_;
};

Made ParseSequence(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "normalizers"}));
  MTF_RETURN_IF_ERROR(CheckNesting(json));
  MTF_ASSIGN_OR_RETURN(const JsonValue list, json.Get("normalizers"));
  MTF_ASSIGN_OR_RETURN(const auto elements, list.Elements());
  std::vector<std::unique_ptr<TextNormalizer>> steps;
  for (const JsonValue& element : elements) {
    MTF_ASSIGN_OR_RETURN(auto step, ParseNormalizer(element));
    steps.push_back(std::move(step));
  }
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

Made ParseForm(const JsonValue& json, NormalForm form) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type"}));
  return Make([form](std::string& text) -> absl::Status {
    MTF_ASSIGN_OR_RETURN(text, NormalizeUnicode(text, form));
    return absl::OkStatus();
  });
}

// BERT's cleaning: control characters go, white space becomes a blank. The
// control characters that are white space have become blanks before.
void CleanText(std::string& text) {
  RewriteCodePoints(
      text, [](char32_t code, absl::string_view bytes, std::string& result) {
        const bool line = code == '\t' || code == '\n' || code == '\r';
        if (!line && (code == 0xFFFD || IsControlOrFormat(code))) return;
        absl::StrAppend(&result, IsWhiteSpace(code) ? " " : bytes);
      });
}

void SpaceIdeographs(std::string& text) {
  if (IsAscii(text)) return;
  RewriteCodePoints(
      text, [](char32_t code, absl::string_view bytes, std::string& result) {
        const absl::string_view blank = IsIdeograph(code) ? " " : "";
        absl::StrAppend(&result, blank, bytes, blank);
      });
}

Made ParseBert(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(
      json.CheckMembers({"type", "clean_text", "handle_chinese_chars",
                         "strip_accents", "lowercase"}));
  MTF_ASSIGN_OR_RETURN(const bool clean, json.Bool("clean_text", true));
  MTF_ASSIGN_OR_RETURN(const bool chinese,
                       json.Bool("handle_chinese_chars", true));
  MTF_ASSIGN_OR_RETURN(const bool lower, json.Bool("lowercase", true));
  MTF_ASSIGN_OR_RETURN(const bool strip, json.Bool("strip_accents", lower));
  return Make([=](std::string& text) -> absl::Status {
    if (clean) CleanText(text);
    if (chinese) SpaceIdeographs(text);
    if (strip) {
      MTF_ASSIGN_OR_RETURN(text, NormalizeUnicode(text, NormalForm::kNfd));
      RemoveCodePoints(text, IsNonSpacingMark);
    }
    if (lower) text = LowerCase(text);
    return absl::OkStatus();
  });
}

Made ParseStrip(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "strip_left", "strip_right"}));
  MTF_ASSIGN_OR_RETURN(const bool left, json.Bool("strip_left", true));
  MTF_ASSIGN_OR_RETURN(const bool right, json.Bool("strip_right", true));
  return Make([=](std::string& text) {
    size_t begin = 0, end = 0;  // end: after the last character to keep
    bool leading = true;
    for (size_t at = 0; at < text.size();) {
      const CodePoint point = DecodeUtf8(text, at);
      at += point.bytes;
      if (!IsWhiteSpace(point.code)) {
        leading = false;
        end = at;
      } else if (leading) {
        begin = at;
      }
    }
    if (right) text.resize(std::max(end, begin));
    if (left) text.erase(0, begin);
    return absl::OkStatus();
  });
}

Made ParsePrepend(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "prepend"}));
  MTF_ASSIGN_OR_RETURN(const JsonValue value, json.Get("prepend"));
  MTF_ASSIGN_OR_RETURN(const std::string prefix, value.String());
  return Make([prefix](std::string& text) {
    if (!text.empty()) text = absl::StrCat(prefix, text);
    return absl::OkStatus();
  });
}

Made ParseReplace(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "pattern", "content"}));
  MTF_ASSIGN_OR_RETURN(const JsonValue content, json.Get("content"));
  MTF_ASSIGN_OR_RETURN(const std::string with, content.String());
  if (json["pattern"]["String"].exists()) {
    MTF_ASSIGN_OR_RETURN(const std::string from,
                         json["pattern"]["String"].String());
    if (from.empty()) {
      return json["pattern"].Error("is empty", "name the text to replace");
    }
    return Make([=](std::string& text) {
      absl::StrReplaceAll({{from, with}}, &text);
      return absl::OkStatus();
    });
  }
  MTF_ASSIGN_OR_RETURN(const SplitPattern pattern, ParsePattern(json));
  return Make([=](std::string& text) -> absl::Status {
    std::vector<TextRange> matches;
    MTF_RETURN_IF_ERROR(pattern.FindAll(
        text, {0, static_cast<uint32_t>(text.size())}, matches));
    std::string result;
    size_t done = 0;
    for (const TextRange& match : matches) {
      absl::StrAppend(&result,
                      absl::string_view(text).substr(done, match.begin - done),
                      with);
      done = match.end;
    }
    text = absl::StrCat(result, absl::string_view(text).substr(done));
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextNormalizer>> ParseNormalizer(
    const JsonValue& json) {
  if (!json.exists()) return std::unique_ptr<TextNormalizer>();
  MTF_ASSIGN_OR_RETURN(const JsonValue type_value, json.Get("type"));
  MTF_ASSIGN_OR_RETURN(const std::string type, type_value.String());
  if (type == "Sequence") return ParseSequence(json);
  if (type == "BertNormalizer") return ParseBert(json);
  if (type == "NFC") return ParseForm(json, NormalForm::kNfc);
  if (type == "NFD") return ParseForm(json, NormalForm::kNfd);
  if (type == "NFKC") return ParseForm(json, NormalForm::kNfkc);
  if (type == "NFKD") return ParseForm(json, NormalForm::kNfkd);
  if (type == "Strip") return ParseStrip(json);
  if (type == "Prepend") return ParsePrepend(json);
  if (type == "Replace") return ParseReplace(json);
  if (type == "Lowercase") {
    MTF_RETURN_IF_ERROR(json.CheckMembers({"type"}));
    return Make([](std::string& text) {
      text = LowerCase(text);
      return absl::OkStatus();
    });
  }
  if (type == "StripAccents") {
    MTF_RETURN_IF_ERROR(json.CheckMembers({"type"}));
    return Make([](std::string& text) {
      RemoveCodePoints(text, IsMark);
      return absl::OkStatus();
    });
  }
  return type_value.Unsupported(
      absl::StrCat("is the normalizer \"", type, "\", which is not supported"),
      "use the SentencePiece model of the same folder if it has one "
      "(spiece.model, tokenizer.model)");
}

}  // namespace mtf::train
