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

// What Encode adds and finds beyond plain text.
struct EncodeOptions {
  // Puts the special tokens at the ends of the text that the model's files ask
  // for: [CLS] and [SEP] of BERT, the bos token of Llama, the eos token of T5.
  bool special_ends = false;
  // Encodes special tokens that are written in the text, "<|endoftext|>", as
  // their ids. For text that a program has written, never for a user's.
  bool special_in_text = false;
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

  // As Encode, with options. kUnimplemented for an option that this tokenizer
  // lacks. The default puts bos and eos, where the vocabulary has them, at the
  // ends, and finds no special tokens in the text.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeWith(
      const EncodeOptions& options, absl::string_view text) const;

  // The text of `ids`; special tokens stand for no text. kOutOfRange, with the
  // id and its index, for an id outside of the vocabulary.
  virtual absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> ids) const = 0;

  // All ids are at least 0 and less than this.
  virtual int64_t vocabulary_size() const = 0;

  virtual SpecialTokens special_tokens() const = 0;

  // Whether Encode(a + b) is Encode(a) followed by Encode(b) if `a` ends with a
  // line break and `b` begins with no white space. Long texts can then be
  // encoded in blocks of lines.
  virtual bool SplitsAtLineBreaks() const { return false; }
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_TOKENIZER_H_
