// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_PIPELINE_TOKENIZER_H_
#define TRAIN_TOKENIZERS_PIPELINE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "train/tokenizers/added_tokens.h"
#include "train/tokenizers/text_steps.h"
#include "train/tokenizers/token_decoder.h"
#include "train/tokenizers/tokenizer.h"
#include "train/tokenizers/word_cache.h"
#include "train/tokenizers/word_model.h"

namespace mtf::train {

// What a tokenizer.json, or files like it, consist of.
struct TokenizerParts {
  std::unique_ptr<TextNormalizer> normalizer;  // may be null
  PreTokenizers pre_tokenizers;
  std::unique_ptr<WordModel> model;
  std::unique_ptr<TokenDecoder> decoder;
  std::vector<AddedToken> added_tokens;
  std::vector<int32_t> before, after;  // EncodeOptions::special_ends
  SpecialTokens special;
  // Whether normalizer and pre-tokenizers treat lines by themselves.
  bool splits_at_line_breaks = false;
};

// The pipeline of Hugging Face's tokenizers: added tokens are found in the
// text, what is between them is normalized and split into words, and a model
// encodes each word. Ids equal those of the reference implementation.
//
// Invalid UTF-8 in a text is replaced by U+FFFD first. A word that a vocabulary
// without an unknown token cannot spell is kInvalidArgument, where the
// reference drops the characters.
class PipelineTokenizer final : public Tokenizer {
 public:
  // kInvalidArgument if ids of added tokens do not fit the vocabulary.
  static absl::StatusOr<std::unique_ptr<PipelineTokenizer>> Create(
      TokenizerParts parts);

  // Reads a tokenizer.json, and the names of special tokens from a
  // tokenizer_config.json next to it, if there is one. kInvalidArgument or
  // kUnimplemented, with file and key, for what is wrong or not supported.
  static absl::StatusOr<std::unique_ptr<PipelineTokenizer>> ReadJson(
      const std::string& path);
  // Reads the vocab.json and merges.txt of GPT-2 and RoBERTa.
  static absl::StatusOr<std::unique_ptr<PipelineTokenizer>> ReadBpeFiles(
      const std::string& vocab_path, const std::string& merges_path);
  // Reads the vocab.txt of BERT. tokenizer_config.json next to it says whether
  // the text becomes lower case (do_lower_case), which is the default.
  static absl::StatusOr<std::unique_ptr<PipelineTokenizer>> ReadWordPieceFile(
      const std::string& path);

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override;
  absl::StatusOr<std::vector<int32_t>> EncodeWith(
      const EncodeOptions& options, absl::string_view text) const override;
  absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> ids) const override;
  int64_t vocabulary_size() const override {
    return static_cast<int64_t>(tokens_.size());
  }
  SpecialTokens special_tokens() const override { return parts_.special; }
  bool SplitsAtLineBreaks() const override;

 private:
  explicit PipelineTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}

  absl::Status IndexAddedTokens();
  absl::Status EncodePart(std::string text, bool at_start, bool find_special,
                          std::vector<int32_t>& ids) const;
  absl::Status EncodeWords(std::string text, bool at_start,
                           std::vector<int32_t>& ids) const;

  TokenizerParts parts_;
  AddedTokenFinder raw_finder_, normalized_finder_;
  std::vector<std::string> tokens_;  // by id, as the decoder reads them
  std::vector<bool> is_special_;     // by id
  mutable ScratchPool scratch_;
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_PIPELINE_TOKENIZER_H_
