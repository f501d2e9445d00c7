// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_BPE_MODEL_H_
#define TRAIN_TOKENIZERS_BPE_MODEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train/tokenizers/json_value.h"
#include "train/tokenizers/word_model.h"

namespace mtf::train {

// The characters by which GPT-2's files write bytes: "\u0120" for a blank. The
// reverse is -1 for other characters.
char32_t CharacterOfByte(uint8_t byte);
int ByteOfCharacter(char32_t character);

// The bytes that `token` stands for in such a file; false if it has other
// characters.
bool BytesOfToken(absl::string_view token, std::string& bytes);

// Byte pair encoding (Sennrich et al. 2016): begins with the characters or
// bytes of a word and merges, as long as there is one, the pair of neighbours
// that comes first in the list of merges; of equal pairs, the leftmost. O(n log
// n) in the length of the word.
class BpeModel final : public WordModel {
 public:
  using Merges = std::vector<std::pair<std::string, std::string>>;
  struct Options {
    bool byte_level = false;     // symbols are bytes, as in GPT-2
    bool byte_fallback = false;  // unknown characters are "<0xE2>", as in Llama
    bool fuse_unk = false;       // neighbouring unknown characters are one
    bool ignore_merges = false;  // a word that is a token is that token
    std::string unk_token;       // "" if there is none
    std::string continuing_subword_prefix;
    std::string end_of_word_suffix;
  };

  // The "model" of a tokenizer.json. kInvalidArgument or kUnimplemented with
  // the key.
  static absl::StatusOr<BpeModel> Parse(const JsonValue& model,
                                        bool byte_level);
  // kInvalidArgument if a merge names a token that is not in the vocabulary.
  static absl::StatusOr<BpeModel> Create(Vocabulary vocabulary,
                                         const Merges& merges, Options options);

  absl::Status Encode(absl::string_view word, WordScratch& scratch,
                      std::vector<int32_t>& ids) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  int32_t unk() const override { return unk_; }
  bool SplitsAtMetaspace() const override { return splits_at_metaspace_; }

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };

  BpeModel(Vocabulary vocabulary, Options options)
      : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {}

  absl::Status IndexSymbols();
  absl::Status AddMerges(const Merges& merges);
  const Merge* FindMerge(int32_t left, int32_t right) const;
  absl::Status AddByteSymbols(absl::string_view word,
                              WordScratch& scratch) const;
  absl::Status AddCharacterSymbols(absl::string_view word,
                                   WordScratch& scratch) const;
  bool AddFallbackSymbols(absl::string_view symbol, WordScratch& scratch) const;
  void PushCandidate(int32_t left, WordScratch& scratch) const;
  void MergeSymbols(WordScratch& scratch) const;

  Vocabulary vocabulary_;
  Options options_;
  absl::flat_hash_map<uint64_t, Merge> merges_;      // by both ids
  absl::flat_hash_map<std::string, int32_t> words_;  // if ignore_merges
  std::array<int32_t, 256> byte_ids_;  // of single bytes, or of "<0x..>"
  int32_t unk_ = -1;
  bool splits_at_metaspace_ = false;
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_BPE_MODEL_H_
