// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_ADDED_TOKENS_H_
#define TRAIN_TOKENIZERS_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train/tokenizers/json_value.h"
#include "train/tokenizers/split_pattern.h"
#include "train/tokenizers/text_steps.h"

namespace mtf::train {

// A token that is found in a text before any other step splits it.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;      // has a meaning of its own: begins a text, say
  bool single_word = false;  // only where no word character is next to it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool normalized = true;    // looked for in the normalized text
};

// The tokens that "added_tokens" of a tokenizer.json lists. Returns nothing if
// `json` is missing.
absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const JsonValue& json);

// Finds added tokens in a text: at each byte the longest one that begins there,
// from left to right. Linear in the text for tokens of bounded length.
class AddedTokenFinder {
 public:
  // `patterns[i]` is the text by which `tokens[i]` is found.
  AddedTokenFinder(std::vector<AddedToken> tokens,
                   const std::vector<std::string>& patterns);
  AddedTokenFinder() : AddedTokenFinder({}, {}) {}

  // A part of a text: an added token, or text without any.
  struct Part {
    TextRange range;
    const AddedToken* token = nullptr;
  };
  // The parts of `text` in order. Special tokens are text like any other unless
  // `find_special`.
  std::vector<Part> Split(absl::string_view text, bool find_special) const;

 private:
  const AddedToken* LongestAt(absl::string_view text, size_t at,
                              size_t& bytes) const;

  std::vector<AddedToken> tokens_;
  // A trie: the node after `byte` in `node`, by node << 8 | byte. 0 is the
  // root.
  absl::flat_hash_map<uint64_t, uint32_t> next_;
  std::vector<int32_t> token_of_node_;  // index in tokens_, or -1
  std::array<bool, 256> begins_{};      // first bytes of tokens
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_ADDED_TOKENS_H_
