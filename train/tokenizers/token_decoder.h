// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_TOKEN_DECODER_H_
#define TRAIN_TOKENIZERS_TOKEN_DECODER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/tokenizers/json_value.h"

namespace mtf::train {

// Rewrites tokens so that their texts, one after the other, are the text.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  virtual absl::Status Apply(std::vector<std::string>& tokens) const = 0;
};

// The decoder that `json` describes, or null if `json` is missing: then tokens
// are separated by blanks. Supported: Sequence, ByteLevel, WordPiece,
// Metaspace, BPEDecoder, ByteFallback, Fuse, Strip, Replace. Others are
// kUnimplemented, with the key.
absl::StatusOr<std::unique_ptr<TokenDecoder>> ParseDecoder(
    const JsonValue& json);

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_TOKEN_DECODER_H_
