// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_TOKENIZER_H_
#define TRAIN_TOKENIZERS_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mtf::train {

// Ids of a vocabulary with a meaning of their own, or kNone.
struct SpecialTokens {
  static constexpr int32_t kNone = -1;

  int32_t bos = kNone;   // begins a text; [CLS] of BERT
  int32_t eos = kNone;   // ends a text; [SEP] of BERT
  int32_t pad = kNone;   // fills rows up to their length
  int32_t unk = kNone;   // stands for text that the vocabulary lacks
  int32_t mask = kNone;  // [MASK] of BERT
};

// Translates text to token ids and back. Calls depend on their arguments only,
// and any number of threads may make them at once.
//
//   MTF_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.Encode("In the"));
//   MTF_ASSIGN_OR_RETURN(std::string text, tokenizer.Decode(ids));
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids of `text`, without special tokens at its ends. Text that looks like
  // a special token is encoded as plain text. kInvalidArgument, with the
  // byte, if `text` has no ids; a vocabulary of bytes encodes any text.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const = 0;

  // The text of `ids`; special tokens stand for no text. kOutOfRange, with the
  // id and its index, for an id outside of the vocabulary.
  virtual absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> ids) const = 0;

  // All ids are at least 0 and less than this.
  virtual int64_t vocabulary_size() const = 0;

  virtual SpecialTokens special_tokens() const = 0;
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_TOKENIZER_H_
