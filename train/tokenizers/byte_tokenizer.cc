// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/byte_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"

namespace mtf::train {

absl::StatusOr<std::vector<int32_t>> ByteTokenizer::Encode(
    absl::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (const char byte : text) ids.push_back(static_cast<uint8_t>(byte));
  return ids;
}

absl::StatusOr<std::string> ByteTokenizer::Decode(
    absl::Span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] > kEndOfText) {
      return absl::OutOfRangeError(absl::StrCat(
          "token ", i, " is ", ids[i], ", but the vocabulary has ",
          vocabulary_size(), " tokens",
          DetailLine("help", "decode ids of this tokenizer only")));
    }
    if (ids[i] != kEndOfText) text.push_back(static_cast<char>(ids[i]));
  }
  return text;
}

}  // namespace mtf::train
