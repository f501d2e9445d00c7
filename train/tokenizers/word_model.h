// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_WORD_MODEL_H_
#define TRAIN_TOKENIZERS_WORD_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train/tokenizers/json_value.h"

namespace mtf::train {

// The tokens of a model with their ids, checked: ids are not negative, no two
// tokens share one, and the largest is not far above the number of tokens.
struct Vocabulary {
  absl::flat_hash_map<std::string, int32_t> ids;
  std::vector<std::string> tokens;  // by id; "" where no token has the id

  // kNone (-1) if there is no such token.
  int32_t Find(absl::string_view token) const;
  // kInvalidArgument if `id` cannot be an id of `token`.
  absl::Status Add(const std::string& token, int64_t id, int64_t most_ids);
};

// The members of `json` as tokens with their ids.
absl::StatusOr<Vocabulary> ParseVocabulary(const JsonValue& json);

// Memory that encoding of one word after the other uses again. One thread at a
// time.
struct WordScratch {
  struct Symbol {
    int32_t id;        // kMerged where the symbol has become part of another
    int32_t previous;  // index, or -1
    int32_t next;
  };
  struct Candidate {
    uint32_t rank;
    int32_t position;  // of the left symbol
    int32_t id;        // of the merged symbol
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> queue;
  std::string text;
};

// Encodes one word, which the steps before have split off.
class WordModel {
 public:
  virtual ~WordModel() = default;

  // Appends the ids of `word`. kInvalidArgument if it has none.
  virtual absl::Status Encode(absl::string_view word, WordScratch& scratch,
                              std::vector<int32_t>& ids) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual int32_t unk() const = 0;  // or -1

  // Whether no token reaches over the beginning of "\u2581": then a text of
  // words that begin with it can be encoded word by word.
  virtual bool SplitsAtMetaspace() const { return false; }
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_WORD_MODEL_H_
