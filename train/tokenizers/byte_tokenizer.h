// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_BYTE_TOKENIZER_H_
#define TRAIN_TOKENIZERS_BYTE_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "train/tokenizers/tokenizer.h"

namespace mtf::train {

// One token per byte, and 256 for the end of a text. Needs no file and encodes
// any text.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEndOfText = 256;

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override;
  absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> ids) const override;
  int64_t vocabulary_size() const override { return kEndOfText + 1; }
  SpecialTokens special_tokens() const override { return {.eos = kEndOfText}; }
  bool SplitsAtLineBreaks() const override { return true; }
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_BYTE_TOKENIZER_H_
