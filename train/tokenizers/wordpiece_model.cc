// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/wordpiece_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

bool BeginsCharacter(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0) != 0x80;
}

}  // namespace

absl::StatusOr<WordPieceModel> WordPieceModel::Parse(const JsonValue& model) {
  MTF_RETURN_IF_ERROR(
      model.CheckMembers({"type", "unk_token", "continuing_subword_prefix",
                          "max_input_chars_per_word", "vocab"}));
  WordPieceModel result;
  MTF_ASSIGN_OR_RETURN(result.prefix_,
                       model.String("continuing_subword_prefix", "##"));
  MTF_ASSIGN_OR_RETURN(result.most_characters_,
                       model.Integer("max_input_chars_per_word", 100));
  MTF_ASSIGN_OR_RETURN(const JsonValue vocab, model.Get("vocab"));
  MTF_ASSIGN_OR_RETURN(result.vocabulary_, ParseVocabulary(vocab));
  MTF_ASSIGN_OR_RETURN(const std::string unk,
                       model.String("unk_token", "[UNK]"));
  result.unk_ = result.vocabulary_.Find(unk);
  if (result.unk_ < 0) {
    return model["unk_token"].Error(
        absl::StrCat("is \"", unk, "\", which is not in the vocabulary"),
        "add the token to the vocabulary, or name another one");
  }
  for (const auto& [token, id] : result.vocabulary_.ids) {
    result.longest_token_ = std::max(result.longest_token_, token.size());
  }
  return result;
}

absl::Status WordPieceModel::Encode(absl::string_view word,
                                    WordScratch& scratch,
                                    std::vector<int32_t>& ids) const {
  const auto characters =
      std::count_if(word.begin(), word.end(), BeginsCharacter);
  const size_t before = ids.size();
  size_t begin = characters > most_characters_ ? word.size() : 0;
  bool known = begin == 0;
  std::string& piece = scratch.text;
  while (begin < word.size()) {
    piece = begin == 0 ? "" : prefix_;
    const size_t prefix_bytes = piece.size();
    // Longer pieces than every token are not tried.
    size_t end = std::min(word.size(), begin + longest_token_);
    while (end < word.size() && !BeginsCharacter(word[end])) --end;
    absl::StrAppend(&piece, word.substr(begin, end - begin));
    int32_t id = -1;
    while (end > begin && (id = vocabulary_.Find(piece)) < 0) {
      do {
        --end;
      } while (!BeginsCharacter(word[end]));
      piece.resize(prefix_bytes + end - begin);
    }
    if (id < 0) {
      known = false;
      break;
    }
    ids.push_back(id);
    begin = end;
  }
  if (!known) {
    ids.resize(before);
    ids.push_back(unk_);
  }
  return absl::OkStatus();
}

}  // namespace mtf::train
