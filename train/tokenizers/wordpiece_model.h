// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_WORDPIECE_MODEL_H_
#define TRAIN_TOKENIZERS_WORDPIECE_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train/tokenizers/json_value.h"
#include "train/tokenizers/word_model.h"

namespace mtf::train {

// WordPiece (Devlin et al. 2018): the longest token that begins a word, then
// the longest "##" token that continues it, and so on. A word with a rest that
// has no token, or of too many characters, is one unknown token.
class WordPieceModel final : public WordModel {
 public:
  // The "model" of a tokenizer.json. kInvalidArgument or kUnimplemented with
  // the key.
  static absl::StatusOr<WordPieceModel> Parse(const JsonValue& model);

  absl::Status Encode(absl::string_view word, WordScratch& scratch,
                      std::vector<int32_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  int32_t unk() const override { return unk_; }

 private:
  Vocabulary vocabulary_;
  std::string prefix_;
  int64_t most_characters_ = 100;
  size_t longest_token_ = 0;  // in bytes
  int32_t unk_ = -1;
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_WORDPIECE_MODEL_H_
