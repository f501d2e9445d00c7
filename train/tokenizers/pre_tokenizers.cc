// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "mtf/status.h"
#include "train/tokenizers/text_steps.h"
#include "train/tokenizers/unicode_text.h"

namespace mtf::train {
namespace {

// What becomes of the matches of a pattern, the delimiters.
enum class DelimiterBehavior {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,  // neighbours that match are one word, as are those that do not
};

// A stretch of a word that is a match of a pattern, or lies between matches.
struct Stretch {
  TextRange range;
  bool is_match = false;
};

// Joins stretches, which are in order and without gaps, to words.
void JoinStretches(const std::vector<Stretch>& stretches,
                   DelimiterBehavior behavior, std::vector<TextRange>& words) {
  const size_t first = words.size();
  for (size_t i = 0; i < stretches.size(); ++i) {
    const auto& [range, is_match] = stretches[i];
    const bool before = i > 0 && stretches[i - 1].is_match;
    if (behavior == DelimiterBehavior::kRemoved && is_match) continue;
    const bool continues =
        i > 0 &&
        ((behavior == DelimiterBehavior::kMergedWithPrevious && is_match &&
          !before) ||
         (behavior == DelimiterBehavior::kMergedWithNext && !is_match &&
          before) ||
         (behavior == DelimiterBehavior::kContiguous && is_match == before));
    if (continues) {
      words.back().end = range.end;
    } else {
      words.push_back(range);
    }
  }
  // Empty matches split, but are not words.
  words.erase(
      std::remove_if(words.begin() + static_cast<std::ptrdiff_t>(first),
                     words.end(),
                     [](const TextRange& word) { return word.size() == 0; }),
      words.end());
}

// Splits every word at the code points of a class.
template <class Predicate>
void SplitAtCodePoints(SplitText& split, DelimiterBehavior behavior,
                       Predicate is_delimiter) {
  std::vector<TextRange> words;
  std::vector<Stretch> stretches;
  for (const TextRange& word : split.words) {
    stretches.clear();
    uint32_t done = word.begin;
    for (uint32_t at = word.begin; at < word.end;) {
      const CodePoint point = DecodeUtf8(split.text, at);
      const uint32_t next = at + point.bytes;
      if (is_delimiter(point.code)) {
        if (done < at) stretches.push_back({{done, at}, false});
        stretches.push_back({{at, next}, true});
        done = next;
      }
      at = next;
    }
    if (done < word.end) stretches.push_back({{done, word.end}, false});
    JoinStretches(stretches, behavior, words);
  }
  split.words = std::move(words);
}

absl::Status SplitByPattern(SplitText& split, const SplitPattern& pattern,
                            DelimiterBehavior behavior, bool invert) {
  std::vector<TextRange> words, matches;
  std::vector<Stretch> stretches;
  words.reserve(split.text.size() / 4);
  for (const TextRange& word : split.words) {
    matches.clear();
    stretches.clear();
    MTF_RETURN_IF_ERROR(pattern.FindAll(split.text, word, matches));
    uint32_t done = word.begin;
    for (const TextRange& match : matches) {
      if (done < match.begin) {
        stretches.push_back({{done, match.begin}, invert});
      }
      stretches.push_back({match, !invert});
      done = match.end;
    }
    if (done < word.end) stretches.push_back({{done, word.end}, invert});
    JoinStretches(stretches, behavior, words);
  }
  split.words = std::move(words);
  return absl::OkStatus();
}

// Puts `prefix` before each word of which `needs_prefix` is true; bytes between
// words go.
template <class Predicate>
void PrependToWords(SplitText& split, absl::string_view prefix,
                    Predicate needs_prefix) {
  std::string text;
  text.reserve(split.text.size() + prefix.size());
  for (TextRange& word : split.words) {
    const absl::string_view old =
        absl::string_view(split.text).substr(word.begin, word.size());
    const uint32_t begin = text.size();
    absl::StrAppend(&text, needs_prefix(word, old) ? prefix : "", old);
    word = {begin, static_cast<uint32_t>(text.size())};
  }
  split.text = std::move(text);
}

class FunctionPreTokenizer final : public PreTokenizer {
 public:
  using Function = std::function<absl::Status(SplitText&)>;
  explicit FunctionPreTokenizer(Function function)
      : function_(std::move(function)) {}
  absl::Status Apply(SplitText& split) const override {
    return function_(split);
  }

 private:
  Function function_;
};

void AddStep(FunctionPreTokenizer::Function function, PreTokenizers& result) {
  result.steps.push_back(
      std::make_unique<FunctionPreTokenizer>(std::move(function)));
}

template <class Predicate>
void AddClassStep(DelimiterBehavior behavior, Predicate is_delimiter,
                  PreTokenizers& result) {
  AddStep(
      [=](SplitText& split) {
        SplitAtCodePoints(split, behavior, is_delimiter);
        return absl::OkStatus();
      },
      result);
}

absl::StatusOr<DelimiterBehavior> ParseBehavior(const JsonValue& json,
                                                absl::string_view otherwise) {
  MTF_ASSIGN_OR_RETURN(const std::string name,
                       json.String("behavior", otherwise));
  if (name == "Removed") return DelimiterBehavior::kRemoved;
  if (name == "Isolated") return DelimiterBehavior::kIsolated;
  if (name == "MergedWithPrevious") {
    return DelimiterBehavior::kMergedWithPrevious;
  }
  if (name == "MergedWithNext") return DelimiterBehavior::kMergedWithNext;
  if (name == "Contiguous") return DelimiterBehavior::kContiguous;
  return json["behavior"].Error(
      "is not a behavior of a delimiter",
      "one of Removed, Isolated, MergedWithPrevious, MergedWithNext, "
      "Contiguous");
}

absl::Status ParseByteLevel(const JsonValue& json, PreTokenizers& result) {
  MTF_RETURN_IF_ERROR(json.CheckMembers(
      {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  MTF_ASSIGN_OR_RETURN(const bool prefix, json.Bool("add_prefix_space", true));
  MTF_ASSIGN_OR_RETURN(const bool use_regex, json.Bool("use_regex", true));
  result.byte_level = true;
  if (prefix) {
    result.splits_at_line_breaks = false;
    AddStep(
        [](SplitText& split) {
          PrependToWords(split, " ",
                         [](const TextRange&, absl::string_view word) {
                           return !absl::StartsWith(word, " ");
                         });
          return absl::OkStatus();
        },
        result);
  }
  if (!use_regex) return absl::OkStatus();
  result.splits_at_line_breaks = !prefix && result.steps.empty();
  MTF_ASSIGN_OR_RETURN(const SplitPattern pattern,
                       SplitPattern::Compile(kGpt2Pattern));
  AddStep(
      [pattern](SplitText& split) {
        return SplitByPattern(split, pattern, DelimiterBehavior::kIsolated,
                              false);
      },
      result);
  return absl::OkStatus();
}

absl::Status ParseSplit(const JsonValue& json, PreTokenizers& result) {
  MTF_RETURN_IF_ERROR(
      json.CheckMembers({"type", "pattern", "behavior", "invert"}));
  MTF_ASSIGN_OR_RETURN(const SplitPattern pattern, ParsePattern(json));
  MTF_ASSIGN_OR_RETURN(const DelimiterBehavior behavior,
                       ParseBehavior(json, ""));
  MTF_ASSIGN_OR_RETURN(const bool invert, json.Bool("invert", false));
  MTF_ASSIGN_OR_RETURN(const std::string regex,
                       json["pattern"].String("Regex", ""));
  const bool known = regex == kGpt2Pattern || regex == kLlama3Pattern ||
                     regex == kQwen2Pattern;
  if (result.steps.empty() && known) result.splits_at_line_breaks = true;
  AddStep(
      [=](SplitText& split) {
        return SplitByPattern(split, pattern, behavior, invert);
      },
      result);
  return absl::OkStatus();
}

absl::Status ParseMetaspace(const JsonValue& json, PreTokenizers& result) {
  MTF_RETURN_IF_ERROR(
      json.CheckMembers({"type", "replacement", "add_prefix_space",
                         "prepend_scheme", "split", "str_rep"}));
  MTF_ASSIGN_OR_RETURN(const std::string mark,
                       json.String("replacement", "\xE2\x96\x81"));
  if (mark.empty() ||
      static_cast<size_t>(DecodeUtf8(mark, 0).bytes) != mark.size()) {
    return json["replacement"].Error("is not one character", "give one");
  }
  MTF_ASSIGN_OR_RETURN(const bool prefix, json.Bool("add_prefix_space", true));
  MTF_ASSIGN_OR_RETURN(
      const std::string scheme,
      json.String("prepend_scheme", prefix ? "always" : "never"));
  if (scheme != "always" && scheme != "never" && scheme != "first") {
    return json["prepend_scheme"].Error("is not a scheme",
                                        "one of always, never, first");
  }
  MTF_ASSIGN_OR_RETURN(const bool splits, json.Bool("split", true));
  const char32_t code = DecodeUtf8(mark, 0).code;
  result.splits_at_line_breaks = false;
  AddStep(
      [=](SplitText& split) {
        std::string text;
        for (TextRange& word : split.words) {
          const absl::string_view old =
              absl::string_view(split.text).substr(word.begin, word.size());
          const bool marked =
              absl::StartsWith(old, " ") || absl::StartsWith(old, mark);
          const bool first = split.at_start && word.begin == 0;
          const bool prepend =
              !marked && (scheme == "always" || (scheme == "first" && first));
          const uint32_t begin = text.size();
          if (prepend) absl::StrAppend(&text, mark);
          for (const char c : old) {
            if (c == ' ') {
              absl::StrAppend(&text, mark);
            } else {
              text.push_back(c);
            }
          }
          word = {begin, static_cast<uint32_t>(text.size())};
        }
        split.text = std::move(text);
        if (splits) {
          SplitAtCodePoints(split, DelimiterBehavior::kMergedWithNext,
                            [code](char32_t c) { return c == code; });
        }
        return absl::OkStatus();
      },
      result);
  return absl::OkStatus();
}

absl::Status ParseSequenceSteps(const JsonValue& json, PreTokenizers& result);

absl::Status ParseStep(const JsonValue& json, PreTokenizers& result) {
  MTF_ASSIGN_OR_RETURN(const JsonValue type_value, json.Get("type"));
  MTF_ASSIGN_OR_RETURN(const std::string type, type_value.String());
  if (result.byte_level) {
    return type_value.Unsupported(
        absl::StrCat("is the pre-tokenizer \"", type,
                     "\" after ByteLevel, which is not supported"),
        "ByteLevel must be the last step");
  }
  if (type == "Sequence") return ParseSequenceSteps(json, result);
  if (type == "ByteLevel") return ParseByteLevel(json, result);
  if (type == "Split") return ParseSplit(json, result);
  if (type == "Metaspace") return ParseMetaspace(json, result);
  if (type == "Digits") {
    MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "individual_digits"}));
    MTF_ASSIGN_OR_RETURN(const bool single,
                         json.Bool("individual_digits", false));
    AddClassStep(
        single ? DelimiterBehavior::kIsolated : DelimiterBehavior::kContiguous,
        IsNumeric, result);
    return absl::OkStatus();
  }
  if (type == "Punctuation") {
    MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "behavior"}));
    MTF_ASSIGN_OR_RETURN(const DelimiterBehavior behavior,
                         ParseBehavior(json, "Isolated"));
    AddClassStep(behavior, IsPunctuation, result);
    return absl::OkStatus();
  }
  if (type != "Whitespace" && type != "WhitespaceSplit" &&
      type != "BertPreTokenizer") {
    return type_value.Unsupported(absl::StrCat("is the pre-tokenizer \"", type,
                                               "\", which is not supported"),
                                  "tokenize with the model's own library and "
                                  "train on the file of tokens");
  }
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type"}));
  if (type == "Whitespace") {
    // Written for another library than the patterns of files, to which the
    // joiners are word characters, too.
    MTF_ASSIGN_OR_RETURN(
        const SplitPattern pattern,
        SplitPattern::Compile(
            R"([\w\x{200c}\x{200d}]+|[^\w\s\x{200c}\x{200d}]+)"));
    AddStep(
        [pattern](SplitText& split) {
          return SplitByPattern(split, pattern, DelimiterBehavior::kRemoved,
                                true);
        },
        result);
    return absl::OkStatus();
  }
  AddClassStep(DelimiterBehavior::kRemoved, IsWhiteSpace, result);
  if (result.steps.size() == 1) result.splits_at_line_breaks = true;
  if (type == "BertPreTokenizer") {
    AddClassStep(DelimiterBehavior::kIsolated, IsPunctuation, result);
  }
  return absl::OkStatus();
}

absl::Status ParseSequenceSteps(const JsonValue& json, PreTokenizers& result) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "pretokenizers"}));
  MTF_RETURN_IF_ERROR(CheckNesting(json));
  MTF_ASSIGN_OR_RETURN(const JsonValue list, json.Get("pretokenizers"));
  MTF_ASSIGN_OR_RETURN(const auto elements, list.Elements());
  for (const JsonValue& element : elements) {
    MTF_RETURN_IF_ERROR(ParseStep(element, result));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNesting(const JsonValue& sequence) {
  constexpr size_t kMostKeyBytes = 400;
  if (sequence.key().size() <= kMostKeyBytes) return absl::OkStatus();
  return sequence.Error("is a sequence nested too deep",
                        "write its steps as one sequence");
}

absl::StatusOr<SplitPattern> ParsePattern(const JsonValue& step) {
  MTF_ASSIGN_OR_RETURN(const JsonValue pattern, step.Get("pattern"));
  MTF_RETURN_IF_ERROR(pattern.CheckMembers({"String", "Regex"}));
  const bool literal = pattern["String"].exists();
  MTF_ASSIGN_OR_RETURN(const JsonValue value,
                       pattern.Get(literal ? "String" : "Regex"));
  MTF_ASSIGN_OR_RETURN(const std::string text, value.String());
  absl::StatusOr<SplitPattern> compiled =
      literal ? SplitPattern::CompileLiteral(text)
              : SplitPattern::Compile(text);
  if (!compiled.ok()) {
    return absl::Status(
        compiled.status().code(),
        value.Error("cannot be used: ", compiled.status().message()).message());
  }
  return compiled;
}

absl::StatusOr<PreTokenizers> ParsePreTokenizers(const JsonValue& json) {
  PreTokenizers result;
  if (json.exists()) MTF_RETURN_IF_ERROR(ParseStep(json, result));
  return result;
}

}  // namespace mtf::train
