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

// Text that a tokenizer has turned into numbers of 16 bits, little endian: the
// files of nanoGPT, and those of llm.c, which begin with a header.
//
//   MTF_ASSIGN_OR_RETURN(const TokenDataset text,
//                        TokenDataset::ReadFile("train.bin", vocab.size));
class TokenDataset {
 public:
  // kNotFound or kPermissionDenied for a file that cannot be read, kOutOfRange
  // for one of fewer than two tokens or with a token from `vocabulary` up; all
  // name the path.
  static absl::StatusOr<TokenDataset> ReadFile(const std::string& path,
                                               int64_t vocabulary);

  // From the bytes of such a file; `name` stands for it in errors.
  static absl::StatusOr<TokenDataset> FromBytes(std::string bytes,
                                                std::string name,
                                                int64_t vocabulary);

  // `size` tokens to learn from without a file: small ones are common, as in
  // text, and what follows each at an even place is its mirror,
  // vocabulary - 1 - token. kOutOfRange for a vocabulary of over 2^16 or a size
  // below 2.
  static absl::StatusOr<TokenDataset> Synthetic(int64_t size,
                                                int64_t vocabulary,
                                                uint32_t seed);

  int64_t size() const { return static_cast<int64_t>(bytes_.size() / 2); }
  int32_t At(int64_t i) const {
    return static_cast<uint8_t>(bytes_[2 * i]) |
           static_cast<uint8_t>(bytes_[2 * i + 1]) << 8;
  }

  // Windows of length.size + 1 tokens, one for each row, whose places depend on
  // seed, step and row only. kOutOfRange when there are fewer tokens than that.
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
