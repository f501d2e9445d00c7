// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/special_tokens.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

struct SpecialKind {
  absl::string_view key;  // in tokenizer_config.json
  int32_t SpecialTokens::*id;
  std::vector<absl::string_view> names;  // in order of preference
};

const std::vector<SpecialKind>& SpecialKinds() {
  static const auto* kinds = new std::vector<SpecialKind>{
      {"bos_token",
       &SpecialTokens::bos,
       {"<s>", "<|begin_of_text|>", "<bos>", "<|endoftext|>", "[CLS]"}},
      {"eos_token",
       &SpecialTokens::eos,
       {"</s>", "<|end_of_text|>", "<eos>", "<|endoftext|>", "[SEP]"}},
      {"pad_token", &SpecialTokens::pad, {"<pad>", "[PAD]"}},
      {"unk_token", &SpecialTokens::unk, {"<unk>", "[UNK]"}},
      {"mask_token", &SpecialTokens::mask, {"<mask>", "[MASK]"}},
  };
  return *kinds;
}

}  // namespace

absl::StatusOr<JsonValue> ReadTokenizerConfig(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string config =
      absl::StrCat(slash == std::string::npos ? "" : path.substr(0, slash + 1),
                   "tokenizer_config.json");
  struct stat info;
  if (stat(config.c_str(), &info) != 0) return JsonValue::Parse("{}", config);
  return JsonValue::ReadFile(config);
}

absl::StatusOr<SpecialTokens> FindSpecialTokens(
    const JsonValue& config,
    const std::function<int32_t(absl::string_view token)>& find) {
  SpecialTokens tokens;
  for (const SpecialKind& kind : SpecialKinds()) {
    int32_t& id = tokens.*kind.id;
    // A token is a string, or an object with more than its content.
    JsonValue value = config[kind.key];
    if (value.IsObject()) value = value["content"];
    if (value.exists()) {
      MTF_ASSIGN_OR_RETURN(const std::string name, value.String());
      id = find(name);
      if (id < 0) {
        return value.Error(
            absl::StrCat("is \"", name, "\", which is not in the vocabulary"),
            "use files of the same model");
      }
      continue;
    }
    for (const absl::string_view name : kind.names) {
      if (id == SpecialTokens::kNone) id = find(name);
    }
  }
  return tokens;
}

std::vector<absl::string_view> UsualSpecialTokens() {
  std::vector<absl::string_view> names;
  for (const SpecialKind& kind : SpecialKinds()) {
    for (const absl::string_view name : kind.names) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return names;
}

}  // namespace mtf::train
