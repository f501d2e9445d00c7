// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_SENTENCEPIECE_TOKENIZER_H_
#define TRAIN_TOKENIZERS_SENTENCEPIECE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "train/tokenizers/added_tokens.h"
#include "train/tokenizers/sentencepiece_library.h"
#include "train/tokenizers/tokenizer.h"

namespace mtf::train {

// A SentencePiece model (Kudo and Richardson 2018) run by its own library: the
// spiece.model of T5, the tokenizer.model of Llama 2. Invalid UTF-8 in a text
// is replaced by U+FFFD first.
//
// EncodeOptions::special_ends puts bos before the text if the model has it, and
// eos after it if not. A tokenizer_config.json next to the file may say
// otherwise (add_bos_token, add_eos_token), and may add the extra_ids of T5:
// <extra_id_0> is the last id.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  // kInvalidArgument, with the file, if it is not a SentencePiece model.
  static absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> ReadFile(
      const std::string& path);

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override;
  absl::StatusOr<std::vector<int32_t>> EncodeWith(
      const EncodeOptions& options, absl::string_view text) const override;
  absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> ids) const override;
  int64_t vocabulary_size() const override;
  SpecialTokens special_tokens() const override { return special_; }

 private:
  SentencePieceTokenizer() = default;

  absl::Status ReadConfig(const std::string& path);
  void IndexSpecialTokens();

  SentencePieceModel model_;
  SpecialTokens special_;
  AddedTokenFinder finder_;  // of special tokens
  int64_t extra_ids_ = 0;
  bool add_bos_ = false, add_eos_ = false;
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_SENTENCEPIECE_TOKENIZER_H_
