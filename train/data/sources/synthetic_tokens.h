// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_SOURCES_SYNTHETIC_TOKENS_H_
#define TRAIN_DATA_SOURCES_SYNTHETIC_TOKENS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "train/data/sources/token_stream.h"

namespace mtf::train {

// Tokens that a model can learn, computed when they are read: small tokens are
// frequent, as in text, and each token at an even index is followed by
// vocabulary - 1 - token.
class SyntheticTokens final : public TokenStream {
 public:
  // kOutOfRange for fewer than two tokens or an empty vocabulary.
  static absl::StatusOr<std::shared_ptr<const SyntheticTokens>> Create(
      int64_t size, int64_t vocabulary, uint32_t seed);

  int64_t size() const override { return size_; }
  absl::Status Read(int64_t begin, absl::Span<int32_t> tokens) const override;
  std::string name() const override { return "synthetic tokens"; }

 private:
  SyntheticTokens(int64_t size, int64_t vocabulary, uint32_t seed)
      : size_(size), vocabulary_(vocabulary), seed_(seed) {}

  const int64_t size_, vocabulary_;
  const uint32_t seed_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_SOURCES_SYNTHETIC_TOKENS_H_
