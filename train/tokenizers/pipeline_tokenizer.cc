// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/pipeline_tokenizer.h"

#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "train/tokenizers/unicode_text.h"

namespace mtf::train {
namespace {

constexpr absl::string_view kMetaspaceMark = "\xE2\x96\x81";

// Splits a text at each "\u2581" that follows another character.
std::vector<TextRange> SplitAtMetaspace(absl::string_view text) {
  std::vector<TextRange> words;
  uint32_t begin = 0;
  bool follows_mark = true;
  for (uint32_t at = 0; at < text.size();) {
    const bool mark = absl::StartsWith(text.substr(at), kMetaspaceMark);
    if (mark && !follows_mark) {
      words.push_back({begin, at});
      begin = at;
    }
    at += mark ? kMetaspaceMark.size() : 1;
    follows_mark = mark;
  }
  if (begin < text.size()) {
    words.push_back({begin, static_cast<uint32_t>(text.size())});
  }
  return words;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PipelineTokenizer>> PipelineTokenizer::Create(
    TokenizerParts parts) {
  auto tokenizer = std::unique_ptr<PipelineTokenizer>(
      new PipelineTokenizer(std::move(parts)));
  MTF_RETURN_IF_ERROR(tokenizer->IndexAddedTokens());
  return tokenizer;
}

absl::Status PipelineTokenizer::IndexAddedTokens() {
  Vocabulary all = parts_.model->vocabulary();
  const auto most_ids = static_cast<int64_t>(
      8 * (all.tokens.size() + parts_.added_tokens.size()) + (1 << 16));
  std::vector<AddedToken> raw, normalized;
  std::vector<std::string> raw_patterns, normalized_patterns;
  for (const AddedToken& token : parts_.added_tokens) {
    const int32_t known = all.Find(token.content);
    if (known >= 0 && known != token.id) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the added token ", Quoted(token.content), " has the id ", token.id,
          ", but the id ", known, " in the vocabulary",
          DetailLine("help", "give one id to the token")));
    }
    MTF_RETURN_IF_ERROR(all.Add(token.content, token.id, most_ids));
    if (!token.normalized) {
      raw.push_back(token);
      raw_patterns.push_back(token.content);
      continue;
    }
    std::string pattern = token.content;
    if (parts_.normalizer != nullptr) {
      MTF_RETURN_IF_ERROR(parts_.normalizer->Apply(pattern));
    }
    normalized.push_back(token);
    normalized_patterns.push_back(std::move(pattern));
  }
  tokens_ = std::move(all.tokens);
  // The decoder undoes what the normalizer did.
  for (size_t i = 0; i < normalized.size(); ++i) {
    tokens_[normalized[i].id] = normalized_patterns[i];
  }
  is_special_.resize(tokens_.size());
  for (const AddedToken& token : parts_.added_tokens) {
    if (token.special) is_special_[token.id] = true;
  }
  for (const auto* ends : {&parts_.before, &parts_.after}) {
    for (const int32_t id : *ends) {
      if (id >= 0 && id < vocabulary_size()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the post-processor adds the id ", id,
                       " to texts, but there are ", vocabulary_size(), " ids",
                       DetailLine("help", "add the token to the vocabulary")));
    }
  }
  raw_finder_ = AddedTokenFinder(std::move(raw), raw_patterns);
  normalized_finder_ =
      AddedTokenFinder(std::move(normalized), normalized_patterns);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> PipelineTokenizer::Encode(
    absl::string_view text) const {
  return EncodeWith({}, text);
}

absl::StatusOr<std::vector<int32_t>> PipelineTokenizer::EncodeWith(
    const EncodeOptions& options, absl::string_view text) const {
  // A normalizer can make a text several times as long, and ranges have 32
  // bits.
  constexpr size_t kMostBytes = size_t{1} << 28;
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a text of ", text.size(), " bytes is over the limit of ", kMostBytes,
        DetailLine("help", "encode it in parts; mtf tokenize does that")));
  }
  std::string valid;
  if (!IsValidUtf8(text)) {
    valid = ReplaceInvalidUtf8(text);
    text = valid;
  }
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  if (options.special_ends) ids = parts_.before;
  for (const AddedTokenFinder::Part& part :
       raw_finder_.Split(text, options.special_in_text)) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
      continue;
    }
    MTF_RETURN_IF_ERROR(EncodePart(
        std::string(text.substr(part.range.begin, part.range.size())),
        part.range.begin == 0, options.special_in_text, ids));
  }
  if (options.special_ends) {
    ids.insert(ids.end(), parts_.after.begin(), parts_.after.end());
  }
  return ids;
}

// Encodes text without added tokens that are found before normalization.
absl::Status PipelineTokenizer::EncodePart(std::string text, bool at_start,
                                           bool find_special,
                                           std::vector<int32_t>& ids) const {
  if (parts_.normalizer != nullptr) {
    MTF_RETURN_IF_ERROR(parts_.normalizer->Apply(text));
  }
  const auto parts = normalized_finder_.Split(text, find_special);
  if (parts.size() == 1 && parts[0].token == nullptr) {
    return EncodeWords(std::move(text), at_start, ids);
  }
  for (const AddedTokenFinder::Part& part : parts) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
      continue;
    }
    MTF_RETURN_IF_ERROR(
        EncodeWords(text.substr(part.range.begin, part.range.size()),
                    at_start && part.range.begin == 0, ids));
  }
  return absl::OkStatus();
}

absl::Status PipelineTokenizer::EncodeWords(std::string text, bool at_start,
                                            std::vector<int32_t>& ids) const {
  SplitText split;
  split.words = {{0, static_cast<uint32_t>(text.size())}};
  split.text = std::move(text);
  split.at_start = at_start;
  for (const auto& step : parts_.pre_tokenizers.steps) {
    MTF_RETURN_IF_ERROR(step->Apply(split));
  }
  if (parts_.pre_tokenizers.steps.empty() &&
      parts_.model->SplitsAtMetaspace()) {
    split.words = SplitAtMetaspace(split.text);
  }
  const absl::string_view all = split.text;
  ScratchPool::Lease lease(scratch_);
  EncodeScratch& scratch = *lease;
  for (const TextRange& word : split.words) {
    const absl::string_view bytes = all.substr(word.begin, word.size());
    if (word.size() > WordCache::kMostBytes) {
      MTF_RETURN_IF_ERROR(parts_.model->Encode(bytes, scratch.word, ids));
      continue;
    }
    if (word.size() == 0) continue;
    const WordCache::Key key = WordCache::KeyOf(all, word);
    if (scratch.cache.Find(key, ids)) continue;
    const size_t before = ids.size();
    MTF_RETURN_IF_ERROR(parts_.model->Encode(bytes, scratch.word, ids));
    scratch.cache.Insert(key, absl::MakeConstSpan(ids).subspan(before));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PipelineTokenizer::Decode(
    absl::Span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary_size()) {
      return absl::OutOfRangeError(absl::StrCat(
          "token ", i, " is ", ids[i], ", but the vocabulary has ",
          vocabulary_size(), " tokens",
          DetailLine("help", "decode ids of this tokenizer only")));
    }
    if (!is_special_[ids[i]]) tokens.push_back(tokens_[ids[i]]);
  }
  MTF_RETURN_IF_ERROR(parts_.decoder->Apply(tokens));
  return absl::StrJoin(tokens, "");
}

bool PipelineTokenizer::SplitsAtLineBreaks() const {
  for (const AddedToken& token : parts_.added_tokens) {
    if (token.lstrip || absl::StrContains(token.content, "\n")) return false;
  }
  return parts_.splits_at_line_breaks;
}

}  // namespace mtf::train
