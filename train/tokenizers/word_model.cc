// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/word_model.h"

#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf::train {

int32_t Vocabulary::Find(absl::string_view token) const {
  const auto found = ids.find(token);
  return found == ids.end() ? -1 : found->second;
}

absl::Status Vocabulary::Add(const std::string& token, int64_t id,
                             int64_t most_ids) {
  const auto error = [&](absl::string_view problem, absl::string_view help) {
    return absl::InvalidArgumentError(absl::StrCat("token ", Quoted(token),
                                                   " has the id ", id, problem,
                                                   DetailLine("help", help)));
  };
  if (id < 0 || id >= most_ids) {
    return error(absl::StrCat(", but ids are from 0 to ", most_ids - 1),
                 "the limit is eight times the number of tokens, and more "
                 "for small vocabularies");
  }
  if (id >= static_cast<int64_t>(tokens.size())) tokens.resize(id + 1);
  std::string& place = tokens[id];
  if (!place.empty() && place != token) {
    return error(absl::StrCat(", as has ", Quoted(place)),
                 "give each token an id of its own");
  }
  place = token;
  ids[token] = static_cast<int32_t>(id);
  return absl::OkStatus();
}

absl::StatusOr<Vocabulary> ParseVocabulary(const JsonValue& json) {
  int64_t size = 0;
  MTF_RETURN_IF_ERROR(
      json.ForEachMember([&](const std::string&, const JsonValue&) {
        ++size;
        return absl::OkStatus();
      }));
  Vocabulary vocabulary;
  vocabulary.ids.reserve(size);
  MTF_RETURN_IF_ERROR(json.ForEachMember(
      [&](const std::string& token, const JsonValue& value) -> absl::Status {
        MTF_ASSIGN_OR_RETURN(const int64_t id, value.Integer());
        const absl::Status added =
            vocabulary.Add(token, id, 8 * size + (1 << 16));
        if (added.ok()) return added;
        return value.Error("is wrong: ", added.message());
      }));
  if (size == 0) {
    return json.Error("is a vocabulary without tokens",
                      "use the file as the model's publisher provides it");
  }
  return vocabulary;
}

}  // namespace mtf::train
