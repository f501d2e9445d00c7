// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/token_decoder.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "mtf/status.h"
#include "train/tokenizers/bpe_model.h"
#include "train/tokenizers/text_steps.h"
#include "train/tokenizers/unicode_text.h"

namespace mtf::train {
namespace {

using Tokens = std::vector<std::string>;
using DecoderOrStatus = absl::StatusOr<std::unique_ptr<TokenDecoder>>;

class FunctionDecoder final : public TokenDecoder {
 public:
  using Function = std::function<absl::Status(Tokens&)>;
  explicit FunctionDecoder(Function function)
      : function_(std::move(function)) {}
  absl::Status Apply(Tokens& tokens) const override {
    return function_(tokens);
  }

 private:
  Function function_;
};

std::unique_ptr<TokenDecoder> MakeDecoder(FunctionDecoder::Function function) {
  return std::make_unique<FunctionDecoder>(std::move(function));
}

// A decoder that rewrites each token by itself: rewrite(index, token).
template <class Rewrite>
std::unique_ptr<TokenDecoder> MakeRewriter(Rewrite rewrite) {
  return MakeDecoder([rewrite](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) rewrite(i, tokens[i]);
    return absl::OkStatus();
  });
}

class DecoderSequence final : public TokenDecoder {
 public:
  explicit DecoderSequence(std::vector<std::unique_ptr<TokenDecoder>> steps)
      : steps_(std::move(steps)) {}
  absl::Status Apply(Tokens& tokens) const override {
    for (const auto& step : steps_) MTF_RETURN_IF_ERROR(step->Apply(tokens));
    return absl::OkStatus();
  }

 private:
  std::vector<std::unique_ptr<TokenDecoder>> steps_;
};

DecoderOrStatus ParseDecoders(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "decoders"}));
  MTF_RETURN_IF_ERROR(CheckNesting(json));
  MTF_ASSIGN_OR_RETURN(const JsonValue list, json.Get("decoders"));
  MTF_ASSIGN_OR_RETURN(const auto elements, list.Elements());
  std::vector<std::unique_ptr<TokenDecoder>> steps;
  for (const JsonValue& element : elements) {
    MTF_ASSIGN_OR_RETURN(auto step, ParseDecoder(element));
    steps.push_back(std::move(step));
  }
  return std::make_unique<DecoderSequence>(std::move(steps));
}

// A token with a character that stands for no byte is text as it is.
absl::Status DecodeByteLevel(Tokens& tokens) {
  std::string all, bytes;
  for (const std::string& token : tokens) {
    absl::StrAppend(&all, BytesOfToken(token, bytes) ? bytes : token);
  }
  tokens = {ReplaceInvalidUtf8(all)};
  return absl::OkStatus();
}

// Removes the blanks that splitting has put before punctuation and parts of
// English contractions.
void CleanUp(std::string& token) {
  static constexpr std::pair<absl::string_view, absl::string_view> kReplaced[] =
      {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
       {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
       {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& replaced : kReplaced) {
    absl::StrReplaceAll({replaced}, &token);
  }
}

DecoderOrStatus ParseWordPieceDecoder(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "prefix", "cleanup"}));
  MTF_ASSIGN_OR_RETURN(const std::string prefix, json.String("prefix", "##"));
  MTF_ASSIGN_OR_RETURN(const bool cleanup, json.Bool("cleanup", true));
  return MakeRewriter([=](size_t i, std::string& token) {
    if (i > 0) {
      if (absl::StartsWith(token, prefix)) {
        token.erase(0, prefix.size());
      } else {
        token = absl::StrCat(" ", token);
      }
    }
    if (cleanup) CleanUp(token);
  });
}

DecoderOrStatus ParseMetaspaceDecoder(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(
      json.CheckMembers({"type", "replacement", "add_prefix_space",
                         "prepend_scheme", "split", "str_rep"}));
  MTF_ASSIGN_OR_RETURN(const std::string mark,
                       json.String("replacement", "\xE2\x96\x81"));
  if (mark.empty()) {
    return json["replacement"].Error("is empty", "give one character");
  }
  MTF_ASSIGN_OR_RETURN(const bool prefix, json.Bool("add_prefix_space", true));
  MTF_ASSIGN_OR_RETURN(
      const std::string scheme,
      json.String("prepend_scheme", prefix ? "always" : "never"));
  return MakeRewriter([=](size_t i, std::string& token) {
    const bool first = i == 0 && scheme != "never";
    absl::StrReplaceAll({{mark, first ? "" : " "}}, &token);
  });
}

DecoderOrStatus ParseBpeDecoder(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "suffix"}));
  MTF_ASSIGN_OR_RETURN(const std::string suffix, json.String("suffix", "</w>"));
  if (suffix.empty()) {
    return json["suffix"].Error("is empty", "give the end of a word");
  }
  return MakeDecoder([=](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool last = i + 1 == tokens.size();
      absl::StrReplaceAll({{suffix, last ? "" : " "}}, &tokens[i]);
    }
    return absl::OkStatus();
  });
}

// The byte of "<0x61>", or -1.
int FallbackByte(absl::string_view token) {
  if (token.size() != 6 || !absl::StartsWith(token, "<0x") || token[5] != '>') {
    return -1;
  }
  int byte = 0;
  for (const char digit : token.substr(3, 2)) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(digit))) return -1;
  }
  return absl::SimpleHexAtoi(token.substr(3, 2), &byte) ? byte : -1;
}

// Joins neighbouring bytes to text. Bytes that are not UTF-8 become U+FFFD
// each.
absl::Status DecodeFallbackBytes(Tokens& tokens) {
  Tokens result;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (IsValidUtf8(bytes)) {
      result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), "\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    const int byte = FallbackByte(token);
    if (byte >= 0) {
      bytes.push_back(static_cast<char>(byte));
      continue;
    }
    flush();
    result.push_back(std::move(token));
  }
  flush();
  tokens = std::move(result);
  return absl::OkStatus();
}

// Removes up to `start` characters `content` from the beginning of each token
// and up to `stop` from its end.
DecoderOrStatus ParseStripDecoder(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "content", "start", "stop"}));
  MTF_ASSIGN_OR_RETURN(const std::string content, json.String("content", " "));
  MTF_ASSIGN_OR_RETURN(const int64_t start, json.Integer("start", 0));
  MTF_ASSIGN_OR_RETURN(const int64_t stop, json.Integer("stop", 0));
  if (content.empty()) {
    return json["content"].Error("is empty", "give one character");
  }
  return MakeRewriter([=](size_t, std::string& token) {
    absl::string_view rest = token;
    for (int64_t i = 0; i < start && absl::StartsWith(rest, content); ++i) {
      rest.remove_prefix(content.size());
    }
    for (int64_t i = 0; i < stop && absl::EndsWith(rest, content); ++i) {
      rest.remove_suffix(content.size());
    }
    token = std::string(rest);
  });
}

DecoderOrStatus ParseReplaceDecoder(const JsonValue& json) {
  MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "pattern", "content"}));
  MTF_ASSIGN_OR_RETURN(const JsonValue content, json.Get("content"));
  MTF_ASSIGN_OR_RETURN(const std::string with, content.String());
  MTF_ASSIGN_OR_RETURN(const JsonValue pattern, json.Get("pattern"));
  if (!pattern["String"].exists()) {
    return pattern.Unsupported("is not a {\"String\": ...}",
                               "decoders replace fixed texts only");
  }
  MTF_ASSIGN_OR_RETURN(const std::string from, pattern["String"].String());
  if (from.empty()) return pattern.Error("is empty", "name a text");
  return MakeRewriter([=](size_t, std::string& token) {
    absl::StrReplaceAll({{from, with}}, &token);
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenDecoder>> ParseDecoder(
    const JsonValue& json) {
  if (!json.exists()) {
    return MakeRewriter([](size_t i, std::string& token) {
      if (i > 0) token = absl::StrCat(" ", token);
    });
  }
  MTF_ASSIGN_OR_RETURN(const JsonValue type_value, json.Get("type"));
  MTF_ASSIGN_OR_RETURN(const std::string type, type_value.String());
  if (type == "Sequence") return ParseDecoders(json);
  if (type == "WordPiece") return ParseWordPieceDecoder(json);
  if (type == "Metaspace") return ParseMetaspaceDecoder(json);
  if (type == "BPEDecoder") return ParseBpeDecoder(json);
  if (type == "Strip") return ParseStripDecoder(json);
  if (type == "Replace") return ParseReplaceDecoder(json);
  if (type == "ByteLevel") return MakeDecoder(DecodeByteLevel);
  if (type == "ByteFallback") return MakeDecoder(DecodeFallbackBytes);
  if (type == "Fuse") {
    return MakeDecoder([](Tokens& tokens) {
      tokens = {absl::StrJoin(tokens, "")};
      return absl::OkStatus();
    });
  }
  return type_value.Unsupported(
      absl::StrCat("is the decoder \"", type, "\", which is not supported"),
      "decode with the model's own library");
}

}  // namespace mtf::train
