// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/tokenizer.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeWith(
    const EncodeOptions& options, absl::string_view text) const {
  if (options.special_in_text) {
    return absl::UnimplementedError(absl::StrCat(
        "this tokenizer finds no special tokens in a text",
        DetailLine("help", "encode plain text and insert their ids")));
  }
  MTF_ASSIGN_OR_RETURN(std::vector<int32_t> ids, Encode(text));
  if (!options.special_ends) return ids;
  const SpecialTokens special = special_tokens();
  if (special.bos != SpecialTokens::kNone) {
    ids.insert(ids.begin(), special.bos);
  }
  if (special.eos != SpecialTokens::kNone) ids.push_back(special.eos);
  return ids;
}

}  // namespace mtf::train
