// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_DATA_TEXT_DATASET_H_
#define TRAIN_DATA_TEXT_DATASET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mtf/dimension.h"
#include "mtf/host_tensor.h"

namespace mtf::train {

// Text as a language model sees it: one token per byte, so a vocabulary of 256
// and no tokenizer to agree on.
class TextDataset {
 public:
  static constexpr int64_t kVocabularySize = 256;

  // What a step learns from: `targets` is the text one byte behind `tokens`.
  struct Batch {
    HostTensor tokens;   // i32[batch, length]
    HostTensor targets;  // i32[batch, length]
  };

  // The text of the file `path`. kNotFound for a file that cannot be read,
  // kOutOfRange for one of fewer than two bytes; both name the path.
  static absl::StatusOr<TextDataset> ReadFile(const std::string& path);

  // The King James text as Debian's `bible` program prints it, a verse a line,
  // without chapter and verse. kNotFound, naming --text, without the program.
  static absl::StatusOr<TextDataset> KingJames();

  // ReadFile, or KingJames for an empty path.
  static absl::StatusOr<TextDataset> Open(const std::string& path);

  // `name` stands for the text in errors.
  static absl::StatusOr<TextDataset> FromText(std::string text,
                                              std::string name);

  const std::string& text() const { return text_; }
  const std::string& name() const { return name_; }

  // Windows of length.size + 1 bytes, one for each row, whose places in the
  // text depend on seed, step and row only: a run reads the same text in the
  // same order under every layout. kOutOfRange when the text is shorter than a
  // window.
  absl::StatusOr<Batch> Draw(uint32_t seed, uint32_t step,
                             const Dimension& batch,
                             const Dimension& length) const;

  // H(next byte | byte) of the text itself, in nats: no model that looks at one
  // byte only can have a lower loss on it.
  double BigramEntropy() const;

 private:
  TextDataset(std::string text, std::string name)
      : text_(std::move(text)), name_(std::move(name)) {}

  std::string text_;
  std::string name_;
};

}  // namespace mtf::train

#endif  // TRAIN_DATA_TEXT_DATASET_H_
