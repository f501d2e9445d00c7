// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/sentencepiece_tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"
#include "train/tokenizers/special_tokens.h"
#include "train/tokenizers/unicode_text.h"

namespace mtf::train {
namespace {

constexpr int64_t kMostModelBytes = int64_t{1} << 28;
constexpr size_t kMostTextBytes = size_t{1} << 28;

}  // namespace

absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>>
SentencePieceTokenizer::ReadFile(const std::string& path) {
  MTF_ASSIGN_OR_RETURN(
      const std::string bytes,
      ReadPlainFile(path, "SentencePiece model", kMostModelBytes));
  std::unique_ptr<SentencePieceTokenizer> tokenizer(new SentencePieceTokenizer);
  const std::string error = tokenizer->model_.Load(bytes);
  if (!error.empty() || tokenizer->model_.size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(path), " is not a SentencePiece model",
        error.empty() ? "" : ": ", Escaped(error),
        DetailLine("help",
                   "use spiece.model or tokenizer.model as the model's "
                   "publisher provides it, or its tokenizer.json")));
  }
  MTF_RETURN_IF_ERROR(tokenizer->ReadConfig(path));
  tokenizer->IndexSpecialTokens();
  return tokenizer;
}

absl::Status SentencePieceTokenizer::ReadConfig(const std::string& path) {
  special_.bos = model_.bos();
  special_.eos = model_.eos();
  special_.pad = model_.pad();
  special_.unk = model_.unk();
  special_.mask = model_.Find("<mask>");
  MTF_ASSIGN_OR_RETURN(const JsonValue config, ReadTokenizerConfig(path));
  const bool has_bos = special_.bos != SpecialTokens::kNone;
  MTF_ASSIGN_OR_RETURN(add_bos_, config.Bool("add_bos_token", has_bos));
  MTF_ASSIGN_OR_RETURN(add_eos_, config.Bool("add_eos_token", !has_bos));
  for (const auto& [key, asks, id] :
       {std::tuple{"add_bos_token", add_bos_, special_.bos},
        std::tuple{"add_eos_token", add_eos_, special_.eos}}) {
    if (!asks || id != SpecialTokens::kNone) continue;
    if (!config[key].exists()) {
      add_eos_ = false;  // by default, of a model without eos
      continue;
    }
    return config[key].Error(
        absl::StrCat("is true, but ", Quoted(path), " has no such token"),
        "set it to false");
  }
  MTF_ASSIGN_OR_RETURN(const std::string type,
                       config.String("tokenizer_class", ""));
  const bool t5 = type == "T5Tokenizer" || type == "T5TokenizerFast";
  MTF_ASSIGN_OR_RETURN(extra_ids_, config.Integer("extra_ids", t5 ? 100 : 0));
  constexpr int64_t kMostExtraIds = 1 << 16;
  if (extra_ids_ < 0 || extra_ids_ > kMostExtraIds) {
    return config["extra_ids"].Error(
        absl::StrCat("is ", extra_ids_, ", not from 0 to ", kMostExtraIds),
        "T5 has 100");
  }
  return absl::OkStatus();
}

void SentencePieceTokenizer::IndexSpecialTokens() {
  std::vector<AddedToken> tokens;
  std::vector<std::string> patterns;
  const auto add = [&](std::string content, int32_t id) {
    AddedToken token;
    token.content = content;
    token.id = id;
    token.special = true;
    tokens.push_back(std::move(token));
    patterns.push_back(std::move(content));
  };
  for (const absl::string_view name : UsualSpecialTokens()) {
    const int id = model_.Find(std::string(name));
    if (id >= 0 && model_.IsControl(id)) add(std::string(name), id);
  }
  for (int64_t i = 0; i < extra_ids_; ++i) {
    add(absl::StrCat("<extra_id_", i, ">"),
        static_cast<int32_t>(vocabulary_size() - 1 - i));
  }
  finder_ = AddedTokenFinder(std::move(tokens), patterns);
}

int64_t SentencePieceTokenizer::vocabulary_size() const {
  return model_.size() + extra_ids_;
}

absl::StatusOr<std::vector<int32_t>> SentencePieceTokenizer::Encode(
    absl::string_view text) const {
  return EncodeWith({}, text);
}

absl::StatusOr<std::vector<int32_t>> SentencePieceTokenizer::EncodeWith(
    const EncodeOptions& options, absl::string_view text) const {
  if (text.size() > kMostTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a text of ", text.size(), " bytes is over the limit of ",
        kMostTextBytes,
        DetailLine("help", "encode it in parts; mtf tokenize does that")));
  }
  std::string valid;
  if (!IsValidUtf8(text)) {
    valid = ReplaceInvalidUtf8(text);
    text = valid;
  }
  std::vector<int32_t> ids;
  if (options.special_ends && add_bos_) ids.push_back(special_.bos);
  std::vector<int> part_ids;
  for (const AddedTokenFinder::Part& part :
       finder_.Split(text, options.special_in_text)) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
      continue;
    }
    const std::string error = model_.Encode(text.data() + part.range.begin,
                                            part.range.size(), part_ids);
    if (!error.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "SentencePiece cannot encode a text of ", part.range.size(),
          " bytes: ", error, DetailLine("help", "encode the text in parts")));
    }
    ids.insert(ids.end(), part_ids.begin(), part_ids.end());
  }
  if (options.special_ends && add_eos_) ids.push_back(special_.eos);
  return ids;
}

absl::StatusOr<std::string> SentencePieceTokenizer::Decode(
    absl::Span<const int32_t> ids) const {
  std::vector<int> known;
  known.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary_size()) {
      return absl::OutOfRangeError(absl::StrCat(
          "token ", i, " is ", ids[i], ", but the vocabulary has ",
          vocabulary_size(), " tokens",
          DetailLine("help", "decode ids of this tokenizer only")));
    }
    // The library writes nothing for control tokens.
    if (ids[i] < model_.size()) known.push_back(ids[i]);
  }
  std::string text;
  const std::string error = model_.Decode(known, text);
  if (!error.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "SentencePiece cannot decode ", Plural(known.size(), "id"), ": ", error,
        DetailLine("help", "decode ids of this tokenizer only")));
  }
  return text;
}

}  // namespace mtf::train
