// SPDX-License-Identifier: Apache-2.0
//
// Tokenizers of files that hold a vocabulary alone: the other steps are those
// of the models that such files belong to.
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "train/tokenizers/bpe_model.h"
#include "train/tokenizers/pipeline_tokenizer.h"
#include "train/tokenizers/special_tokens.h"
#include "train/tokenizers/unicode_text.h"
#include "train/tokenizers/wordpiece_model.h"

namespace mtf::train {
namespace {

constexpr int64_t kMostVocabularyBytes = int64_t{1} << 28;

absl::StatusOr<std::string> ReadUtf8File(const std::string& path) {
  constexpr absl::string_view kHelp =
      "use the file as the model's publisher provides it";
  absl::StatusOr<std::string> text =
      ReadTextFile(path, "vocabulary file", kMostVocabularyBytes);
  if (!text.ok()) {
    return absl::Status(
        text.status().code(),
        absl::StrCat(text.status().message(), DetailLine("help", kHelp)));
  }
  if (IsValidUtf8(*text)) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(path), " is not UTF-8", DetailLine("help", kHelp)));
}

absl::StatusOr<BpeModel::Merges> ReadMerges(const std::string& path) {
  MTF_ASSIGN_OR_RETURN(const std::string text, ReadUtf8File(path));
  BpeModel::Merges merges;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
    if (line.empty() || absl::StartsWith(line, "#version")) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, ' ');
    if (parts.size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, " of ", Quoted(path), " is ", Quoted(line),
          ", not a merge",
          DetailLine("help", "a merge is two tokens with a blank between")));
    }
    merges.emplace_back(parts[0], parts[1]);
  }
  return merges;
}

// The usual special tokens that the vocabulary has.
std::vector<AddedToken> SpecialTokensOf(const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  for (const absl::string_view name : UsualSpecialTokens()) {
    const int32_t id = vocabulary.Find(name);
    if (id < 0) continue;
    AddedToken token;
    token.content = std::string(name);
    token.id = id;
    token.special = true;
    token.normalized = false;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

absl::Status AddSpecialTokens(const std::string& path, TokenizerParts& parts) {
  MTF_ASSIGN_OR_RETURN(const JsonValue config, ReadTokenizerConfig(path));
  const Vocabulary& vocabulary = parts.model->vocabulary();
  parts.added_tokens = SpecialTokensOf(vocabulary);
  MTF_ASSIGN_OR_RETURN(parts.special,
                       FindSpecialTokens(config, [&](absl::string_view name) {
                         return vocabulary.Find(name);
                       }));
  return absl::OkStatus();
}

// The vocab.txt of BERT as the "vocab" of a tokenizer.json: a token a line.
absl::StatusOr<JsonValue> WordPieceModelJson(const std::string& path) {
  MTF_ASSIGN_OR_RETURN(std::string text, ReadUtf8File(path));
  std::string json = "{\"type\": \"WordPiece\", \"vocab\": {";
  int64_t id = 0;
  if (absl::EndsWith(text, "\n")) text.pop_back();
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::EndsWith(line, "\r")) line.remove_suffix(1);
    std::string token;
    for (const char c : line) {
      if (static_cast<unsigned char>(c) < 0x20) {
        return absl::InvalidArgumentError(absl::StrCat(
            "line ", id + 1, " of ", Quoted(path), " is ", Quoted(line),
            ", which has a control character",
            DetailLine("help", "a vocab.txt has one token a line")));
      }
      if (c == '"' || c == '\\') token.push_back('\\');
      token.push_back(c);
    }
    absl::StrAppend(&json, id == 0 ? "" : ",", "\"", token, "\":", id);
    ++id;
  }
  return JsonValue::Parse(absl::StrCat(json, "}}"), path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PipelineTokenizer>>
PipelineTokenizer::ReadBpeFiles(const std::string& vocab_path,
                                const std::string& merges_path) {
  MTF_ASSIGN_OR_RETURN(const JsonValue json, JsonValue::ReadFile(vocab_path));
  MTF_ASSIGN_OR_RETURN(Vocabulary vocabulary, ParseVocabulary(json));
  MTF_ASSIGN_OR_RETURN(const BpeModel::Merges merges, ReadMerges(merges_path));
  BpeModel::Options options;
  options.byte_level = true;
  absl::StatusOr<BpeModel> model =
      BpeModel::Create(std::move(vocabulary), merges, options);
  if (!model.ok()) {
    return absl::Status(model.status().code(),
                        absl::StrCat("in ", Quoted(merges_path), ": ",
                                     model.status().message()));
  }
  TokenizerParts parts;
  MTF_ASSIGN_OR_RETURN(
      const JsonValue step,
      JsonValue::Parse(R"({"type": "ByteLevel", "add_prefix_space": false})",
                       vocab_path));
  MTF_ASSIGN_OR_RETURN(parts.pre_tokenizers, ParsePreTokenizers(step));
  parts.splits_at_line_breaks = true;
  MTF_ASSIGN_OR_RETURN(
      const JsonValue decoder,
      JsonValue::Parse(R"({"type": "ByteLevel"})", vocab_path));
  MTF_ASSIGN_OR_RETURN(parts.decoder, ParseDecoder(decoder));
  parts.model = std::make_unique<BpeModel>(*std::move(model));
  MTF_RETURN_IF_ERROR(AddSpecialTokens(vocab_path, parts));
  return Create(std::move(parts));
}

absl::StatusOr<std::unique_ptr<PipelineTokenizer>>
PipelineTokenizer::ReadWordPieceFile(const std::string& path) {
  MTF_ASSIGN_OR_RETURN(const JsonValue config, ReadTokenizerConfig(path));
  MTF_ASSIGN_OR_RETURN(const bool lower, config.Bool("do_lower_case", true));
  MTF_ASSIGN_OR_RETURN(const bool strip, config.Bool("strip_accents", lower));
  MTF_ASSIGN_OR_RETURN(const bool chinese,
                       config.Bool("tokenize_chinese_chars", true));
  const auto text = [](bool value) { return value ? "true" : "false"; };
  TokenizerParts parts;
  MTF_ASSIGN_OR_RETURN(
      const JsonValue normalizer,
      JsonValue::Parse(
          absl::StrCat(R"({"type": "BertNormalizer", "lowercase": )",
                       text(lower), R"(, "strip_accents": )", text(strip),
                       R"(, "handle_chinese_chars": )", text(chinese), "}"),
          path));
  MTF_ASSIGN_OR_RETURN(parts.normalizer, ParseNormalizer(normalizer));
  MTF_ASSIGN_OR_RETURN(
      const JsonValue step,
      JsonValue::Parse(R"({"type": "BertPreTokenizer"})", path));
  MTF_ASSIGN_OR_RETURN(parts.pre_tokenizers, ParsePreTokenizers(step));
  parts.splits_at_line_breaks = true;
  MTF_ASSIGN_OR_RETURN(const JsonValue decoder,
                       JsonValue::Parse(R"({"type": "WordPiece"})", path));
  MTF_ASSIGN_OR_RETURN(parts.decoder, ParseDecoder(decoder));
  MTF_ASSIGN_OR_RETURN(const JsonValue json, WordPieceModelJson(path));
  MTF_ASSIGN_OR_RETURN(WordPieceModel model, WordPieceModel::Parse(json));
  parts.model = std::make_unique<WordPieceModel>(std::move(model));
  MTF_RETURN_IF_ERROR(AddSpecialTokens(path, parts));
  if (parts.special.bos >= 0) parts.before = {parts.special.bos};
  if (parts.special.eos >= 0) parts.after = {parts.special.eos};
  return Create(std::move(parts));
}

}  // namespace mtf::train
