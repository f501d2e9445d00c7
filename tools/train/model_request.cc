// SPDX-License-Identifier: Apache-2.0
#include "tools/train/model_request.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"

namespace mtf::tools {

absl::Status CheckNoPrompt(const ModelRequest& request) {
  if (request.prompt_length == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--prompt_length is ", request.prompt_length,
      ", but this model takes no trainable vectors before its tokens",
      DetailLine("help", "leave it out")));
}

absl::Status CheckVocabulary(int64_t vocabulary, int64_t tokens,
                             int64_t tokens_made) {
  if (vocabulary >= tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the model has a vocabulary of ", vocabulary,
                   ", but the tokenizer makes ", tokens_made, " tokens",
                   DetailLine("help", "enlarge the vocabulary in --config")));
}

}  // namespace mtf::tools
