// SPDX-License-Identifier: Apache-2.0
//
// The SentencePiece library behind types of the standard library: its header
// defines names of namespace absl that Abseil's own headers define otherwise,
// so no source may include both.
#ifndef TRAIN_TOKENIZERS_SENTENCEPIECE_LIBRARY_H_
#define TRAIN_TOKENIZERS_SENTENCEPIECE_LIBRARY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace mtf::train {

// A loaded model. Functions return an error message, or "" if they succeed.
class SentencePieceModel {
 public:
  SentencePieceModel();
  ~SentencePieceModel();

  std::string Load(const std::string& serialized);
  std::string Encode(const char* text, std::size_t bytes,
                     std::vector<int>& ids) const;
  std::string Decode(const std::vector<int>& ids, std::string& text) const;

  int size() const;
  int bos() const;  // or -1, as the next ones
  int eos() const;
  int pad() const;
  int unk() const;
  int Find(const std::string& piece) const;  // or -1
  bool IsControl(int id) const;

 private:
  struct Processor;
  std::unique_ptr<Processor> processor_;
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_SENTENCEPIECE_LIBRARY_H_
