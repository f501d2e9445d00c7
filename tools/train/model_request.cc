// SPDX-License-Identifier: Apache-2.0
#include "tools/train/model_request.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "nn/models/model_presets.h"

namespace mtf::tools {

absl::Status CheckNoPrompt(const ModelRequest& request) {
  if (request.prompt_length == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--prompt_length is ", request.prompt_length,
      ", but this model takes no trainable vectors before its tokens",
      DetailLine("help", "leave it out")));
}

absl::Status CheckVocabulary(const ModelRequest& request, int64_t vocabulary,
                             int64_t unused, const char* field) {
  const int64_t needed = request.vocabulary - unused;
  if (vocabulary >= needed) return absl::OkStatus();
  const auto preset = nn::FindModelPreset(request.name);
  return absl::InvalidArgumentError(absl::StrCat(
      "the model has a vocabulary of ", vocabulary,
      ", but the tokenizer makes ", request.vocabulary, " tokens",
      DetailLine("help",
                 preset.ok()
                     ? absl::StrCat("give another --tokenizer, or --model=",
                                    preset->type, " with a --config")
                     : absl::StrCat("give ", Quoted(field), " of ", needed,
                                    " or more in --config, or another "
                                    "--tokenizer"))));
}

}  // namespace mtf::tools
