// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_TOKEN_DATASET_H_
#define TRAIN_DATA_TOKEN_DATASET_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/dimension.h"
#include "train/data/text_dataset.h"

namespace mtf::train {

// Tokenized text as 16-bit little-endian numbers: the files of nanoGPT, and
// those of llm.c, which begin with a header.
//
//   MTF_ASSIGN_OR_RETURN(const TokenDataset text,
//                        TokenDataset::ReadFile("train.bin", vocab.size));
class TokenDataset {
 public:
  // Reads the file `path`. kNotFound or kPermissionDenied if it cannot be read,
  // kOutOfRange if it has fewer than two tokens or a token of at least
  // `vocabulary`; all with the path.
  static absl::StatusOr<TokenDataset> ReadFile(const std::string& path,
                                               int64_t vocabulary);

  // The same from the bytes of a file; `name` is its name in errors.
  static absl::StatusOr<TokenDataset> FromBytes(std::string bytes,
                                                std::string name,
                                                int64_t vocabulary);

  // Generates `size` tokens that a model can learn: small tokens are frequent,
  // as in text, and each token at an even index is followed by vocabulary - 1 -
  // token. kOutOfRange for a vocabulary of over 2^16 or a size below 2.
  static absl::StatusOr<TokenDataset> Synthetic(int64_t size,
                                                int64_t vocabulary,
                                                uint32_t seed);

  int64_t size() const { return static_cast<int64_t>(bytes_.size() / 2); }
  int32_t At(int64_t i) const {
    return static_cast<uint8_t>(bytes_[2 * i]) |
           static_cast<uint8_t>(bytes_[2 * i + 1]) << 8;
  }

  // Draws one window of length.size + 1 tokens for each row of the batch, at
  // offsets that depend only on seed, step and row. kOutOfRange if there are
  // fewer tokens than a window.
  absl::StatusOr<TextDataset::Batch> Draw(uint32_t seed, uint32_t step,
                                          const Dimension& batch,
                                          const Dimension& length) const;

 private:
  TokenDataset(std::string bytes, std::string name)
      : bytes_(std::move(bytes)), name_(std::move(name)) {}

  std::string bytes_;  // without the header
  std::string name_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_TOKEN_DATASET_H_
