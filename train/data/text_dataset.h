// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_TEXT_DATASET_H_
#define TRAIN_DATA_TEXT_DATASET_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "mtf/dimension.h"
#include "mtf/host_tensor.h"
#include "train/data/sources/token_stream.h"

namespace mtf::train {

// Text as training data of a language model with one token per byte: a
// vocabulary of 256 and no tokenizer.
class TextDataset final : public TokenStream {
 public:
  static constexpr int64_t kVocabularySize = 256;

  // The data of a step: targets[i] is the byte after tokens[i].
  struct Batch {
    HostTensor tokens;   // i32[batch, length]
    HostTensor targets;  // i32[batch, length]
  };

  // Reads the file `path`. kNotFound if it cannot be read, kOutOfRange if it
  // has fewer than two bytes; both with the path.
  static absl::StatusOr<TextDataset> ReadFile(const std::string& path);

  // The King James text from Debian's `bible` program, one verse per line,
  // without chapter and verse numbers. kNotFound if it is not installed.
  static absl::StatusOr<TextDataset> KingJames();

  // ReadFile, or KingJames for an empty path.
  static absl::StatusOr<TextDataset> Open(const std::string& path);

  // `name` is the name of the text in errors.
  static absl::StatusOr<TextDataset> FromText(std::string text,
                                              std::string name);

  const std::string& text() const { return text_; }

  // The bytes as a stream of tokens.
  int64_t size() const override { return static_cast<int64_t>(text_.size()); }
  absl::Status Read(int64_t begin, absl::Span<int32_t> tokens) const override;
  std::string name() const override;

  // The batch of RandomWindows: one window of length.size + 1 bytes for each
  // row. kOutOfRange if the text is shorter than a window.
  absl::StatusOr<Batch> Draw(uint32_t seed, uint32_t step,
                             const Dimension& batch,
                             const Dimension& length) const;

  // The conditional entropy H(next byte | byte) of the text in nats: a lower
  // bound on the loss of a model that sees only the previous byte.
  double BigramEntropy() const;

 private:
  TextDataset(std::string text, std::string name)
      : text_(std::move(text)), name_(std::move(name)) {}

  std::string text_;
  std::string name_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_TEXT_DATASET_H_
