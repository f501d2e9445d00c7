// SPDX-License-Identifier: Apache-2.0
//
// PipelineTokenizer::ReadJson: the format of Hugging Face's tokenizers.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/tokenizers/bpe_model.h"
#include "train/tokenizers/pipeline_tokenizer.h"
#include "train/tokenizers/special_tokens.h"
#include "train/tokenizers/wordpiece_model.h"

namespace mtf::train {
namespace {

// Older files do not name the type of a model.
std::string TypeOfModel(const JsonValue& model) {
  if (model["merges"].exists()) return "BPE";
  if (model["max_input_chars_per_word"].exists()) return "WordPiece";
  return "";
}

absl::StatusOr<std::unique_ptr<WordModel>> ParseModel(const JsonValue& json,
                                                      bool byte_level) {
  MTF_ASSIGN_OR_RETURN(const std::string type,
                       json.String("type", TypeOfModel(json)));
  if (type == "BPE") {
    MTF_ASSIGN_OR_RETURN(BpeModel model, BpeModel::Parse(json, byte_level));
    return std::make_unique<BpeModel>(std::move(model));
  }
  if (type == "WordPiece") {
    if (byte_level) {
      return json.Unsupported("is WordPiece after a pre-tokenizer ByteLevel",
                              "use BPE with ByteLevel");
    }
    MTF_ASSIGN_OR_RETURN(WordPieceModel model, WordPieceModel::Parse(json));
    return std::make_unique<WordPieceModel>(std::move(model));
  }
  return json["type"].Unsupported(
      absl::StrCat("is the model ", Quoted(type), ", which is not supported"),
      type == "Unigram" ? "open the SentencePiece model of the same folder: "
                          "spiece.model or tokenizer.model"
                        : "supported: BPE, WordPiece");
}

// The ids of a token of a template, "special_tokens": {"[CLS]": {"ids": [1]}}.
absl::Status AddTemplateToken(const JsonValue& processor,
                              const JsonValue& token,
                              std::vector<int32_t>& ids) {
  MTF_ASSIGN_OR_RETURN(const JsonValue name_value, token.Get("id"));
  MTF_ASSIGN_OR_RETURN(const std::string name, name_value.String());
  MTF_ASSIGN_OR_RETURN(const JsonValue specials,
                       processor.Get("special_tokens"));
  MTF_ASSIGN_OR_RETURN(const JsonValue entry, specials.Get(name));
  MTF_ASSIGN_OR_RETURN(const JsonValue list, entry.Get("ids"));
  MTF_ASSIGN_OR_RETURN(const auto elements, list.Elements());
  for (const JsonValue& element : elements) {
    MTF_ASSIGN_OR_RETURN(const int64_t id, element.Integer());
    if (id < 0 || id > INT32_MAX) {
      return element.Error("is not an id", "ids are from 0 to 2^31 - 1");
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status ParseTemplate(const JsonValue& json, TokenizerParts& parts) {
  MTF_RETURN_IF_ERROR(
      json.CheckMembers({"type", "single", "pair", "special_tokens"}));
  MTF_ASSIGN_OR_RETURN(const JsonValue single, json.Get("single"));
  MTF_ASSIGN_OR_RETURN(const auto pieces, single.Elements());
  bool after = false;
  for (const JsonValue& piece : pieces) {
    MTF_RETURN_IF_ERROR(piece.CheckMembers({"SpecialToken", "Sequence"}));
    if (piece["SpecialToken"].exists()) {
      MTF_RETURN_IF_ERROR(AddTemplateToken(json, piece["SpecialToken"],
                                           after ? parts.after : parts.before));
      continue;
    }
    MTF_ASSIGN_OR_RETURN(const std::string name,
                         piece["Sequence"].String("id", ""));
    if (after || name != "A") {
      return piece.Unsupported("is not the only text, {\"id\": \"A\"}",
                               "a template of one text has one Sequence");
    }
    after = true;
  }
  if (!after) {
    return single.Error("has no text", "it must have {\"Sequence\": ...}");
  }
  return absl::OkStatus();
}

// BertProcessing and RobertaProcessing: "cls": ["[CLS]", 101].
absl::Status ParsePairOfEnds(const JsonValue& json, TokenizerParts& parts) {
  MTF_RETURN_IF_ERROR(json.CheckMembers(
      {"type", "cls", "sep", "trim_offsets", "add_prefix_space"}));
  for (const auto& [key, ids] :
       {std::pair{"cls", &parts.before}, std::pair{"sep", &parts.after}}) {
    MTF_ASSIGN_OR_RETURN(const JsonValue value, json.Get(key));
    MTF_ASSIGN_OR_RETURN(const auto elements, value.Elements());
    if (elements.size() != 2) {
      return value.Error("is not a token", "write [\"[CLS]\", 101]");
    }
    MTF_ASSIGN_OR_RETURN(const int64_t id, elements[1].Integer());
    if (id < 0 || id > INT32_MAX) {
      return elements[1].Error("is not an id", "ids are from 0 to 2^31 - 1");
    }
    ids->push_back(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status ParsePostProcessor(const JsonValue& json, TokenizerParts& parts) {
  if (!json.exists()) return absl::OkStatus();
  MTF_ASSIGN_OR_RETURN(const JsonValue type_value, json.Get("type"));
  MTF_ASSIGN_OR_RETURN(const std::string type, type_value.String());
  if (type == "TemplateProcessing") return ParseTemplate(json, parts);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return ParsePairOfEnds(json, parts);
  }
  // Changes the offsets of tokens only, which are not computed here.
  if (type == "ByteLevel") return absl::OkStatus();
  if (type == "Sequence") {
    MTF_RETURN_IF_ERROR(json.CheckMembers({"type", "processors"}));
    MTF_RETURN_IF_ERROR(CheckNesting(json));
    MTF_ASSIGN_OR_RETURN(const JsonValue list, json.Get("processors"));
    MTF_ASSIGN_OR_RETURN(const auto elements, list.Elements());
    for (const JsonValue& element : elements) {
      TokenizerParts ends;
      MTF_RETURN_IF_ERROR(ParsePostProcessor(element, ends));
      // Each one goes around the result of those before it.
      parts.before.insert(parts.before.begin(), ends.before.begin(),
                          ends.before.end());
      parts.after.insert(parts.after.end(), ends.after.begin(),
                         ends.after.end());
    }
    return absl::OkStatus();
  }
  return type_value.Unsupported(
      absl::StrCat("is the post-processor ", Quoted(type),
                   ", which is not supported"),
      "supported: TemplateProcessing, BertProcessing, RobertaProcessing, "
      "ByteLevel, Sequence");
}

// Whether a normalizer changes no line because of another one.
bool NormalizesLines(const JsonValue& json) {
  if (!json.exists()) return true;
  const absl::StatusOr<std::string> type = json.String("type", "");
  return type.ok() && (*type == "NFC" || *type == "NFD" || *type == "NFKC" ||
                       *type == "NFKD" || *type == "Lowercase" ||
                       *type == "StripAccents" || *type == "BertNormalizer");
}

}  // namespace

absl::StatusOr<std::unique_ptr<PipelineTokenizer>> PipelineTokenizer::ReadJson(
    const std::string& path) {
  MTF_ASSIGN_OR_RETURN(const JsonValue json, JsonValue::ReadFile(path));
  MTF_RETURN_IF_ERROR(json.CheckMembers(
      {"version", "truncation", "padding", "added_tokens", "normalizer",
       "pre_tokenizer", "post_processor", "decoder", "model"}));
  for (const absl::string_view key : {"truncation", "padding"}) {
    if (!json[key].exists()) continue;
    return json[key].Unsupported(
        "changes the length of every encoding, which is not supported",
        "set it to null: the data set cuts and pads rows");
  }
  TokenizerParts parts;
  MTF_ASSIGN_OR_RETURN(parts.added_tokens,
                       ParseAddedTokens(json["added_tokens"]));
  MTF_ASSIGN_OR_RETURN(parts.normalizer, ParseNormalizer(json["normalizer"]));
  MTF_ASSIGN_OR_RETURN(parts.pre_tokenizers,
                       ParsePreTokenizers(json["pre_tokenizer"]));
  parts.splits_at_line_breaks = parts.pre_tokenizers.splits_at_line_breaks &&
                                NormalizesLines(json["normalizer"]);
  MTF_RETURN_IF_ERROR(ParsePostProcessor(json["post_processor"], parts));
  MTF_ASSIGN_OR_RETURN(parts.decoder, ParseDecoder(json["decoder"]));
  MTF_ASSIGN_OR_RETURN(const JsonValue model, json.Get("model"));
  MTF_ASSIGN_OR_RETURN(parts.model,
                       ParseModel(model, parts.pre_tokenizers.byte_level));
  MTF_ASSIGN_OR_RETURN(const JsonValue config, ReadTokenizerConfig(path));
  MTF_ASSIGN_OR_RETURN(
      parts.special,
      FindSpecialTokens(config, [&](absl::string_view name) -> int32_t {
        for (const AddedToken& token : parts.added_tokens) {
          if (token.content == name) return token.id;
        }
        return parts.model->vocabulary().Find(name);
      }));
  if (parts.model->unk() >= 0) parts.special.unk = parts.model->unk();
  absl::StatusOr<std::unique_ptr<PipelineTokenizer>> result =
      Create(std::move(parts));
  if (result.ok()) return result;
  return absl::Status(
      result.status().code(),
      json.Error("is wrong: ", result.status().message()).message());
}

}  // namespace mtf::train
