// SPDX-License-Identifier: Apache-2.0
//
// Which tokens of a vocabulary begin and end a text, and so on: model files
// name them in tokenizer_config.json, or only by custom.
#ifndef TRAIN_TOKENIZERS_SPECIAL_TOKENS_H_
#define TRAIN_TOKENIZERS_SPECIAL_TOKENS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train/tokenizers/json_value.h"
#include "train/tokenizers/tokenizer.h"

namespace mtf::train {

// The tokenizer_config.json next to `path`; an empty object if there is none.
absl::StatusOr<JsonValue> ReadTokenizerConfig(const std::string& path);

// The tokens that `config` names as bos_token, eos_token and so on; for those
// that it does not name, the first usual name that the vocabulary has. `find`
// returns the id of a token or -1. kInvalidArgument if `config` names a token
// that the vocabulary lacks.
absl::StatusOr<SpecialTokens> FindSpecialTokens(
    const JsonValue& config,
    const std::function<int32_t(absl::string_view token)>& find);

// Every usual name: "<s>", "[CLS]", "<|endoftext|>" and so on.
std::vector<absl::string_view> UsualSpecialTokens();

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_SPECIAL_TOKENS_H_
