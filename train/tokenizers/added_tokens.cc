// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/added_tokens.h"

#include <algorithm>

#include "mtf/status.h"
#include "train/tokenizers/unicode_text.h"

namespace mtf::train {
namespace {

// The first byte of the code point that ends before byte `end`, over 0.
size_t PreviousCodePoint(absl::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool IsSingleWord(absl::string_view text, size_t begin, size_t end) {
  const bool before =
      begin > 0 &&
      IsWordCharacter(DecodeUtf8(text, PreviousCodePoint(text, begin)).code);
  const bool after =
      end < text.size() && IsWordCharacter(DecodeUtf8(text, end).code);
  return !before && !after;
}

size_t WithoutSpaceBefore(absl::string_view text, size_t begin) {
  while (begin > 0) {
    const size_t previous = PreviousCodePoint(text, begin);
    if (!IsWhiteSpace(DecodeUtf8(text, previous).code)) break;
    begin = previous;
  }
  return begin;
}

size_t WithoutSpaceAfter(absl::string_view text, size_t end) {
  while (end < text.size()) {
    const CodePoint point = DecodeUtf8(text, end);
    if (!IsWhiteSpace(point.code)) break;
    end += point.bytes;
  }
  return end;
}

}  // namespace

absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(
    const JsonValue& json) {
  std::vector<AddedToken> tokens;
  if (!json.exists()) return tokens;
  MTF_ASSIGN_OR_RETURN(const auto elements, json.Elements());
  for (const JsonValue& element : elements) {
    MTF_RETURN_IF_ERROR(
        element.CheckMembers({"id", "content", "single_word", "lstrip",
                              "rstrip", "normalized", "special"}));
    AddedToken token;
    MTF_ASSIGN_OR_RETURN(const JsonValue content, element.Get("content"));
    MTF_ASSIGN_OR_RETURN(token.content, content.String());
    if (token.content.empty()) {
      return content.Error("is empty", "remove the token");
    }
    MTF_ASSIGN_OR_RETURN(const JsonValue id_value, element.Get("id"));
    MTF_ASSIGN_OR_RETURN(const int64_t id, id_value.Integer());
    if (id < 0 || id > INT32_MAX) {
      return id_value.Error("is not an id", "ids are from 0 to 2^31 - 1");
    }
    token.id = static_cast<int32_t>(id);
    MTF_ASSIGN_OR_RETURN(token.special, element.Bool("special", false));
    MTF_ASSIGN_OR_RETURN(token.single_word, element.Bool("single_word", false));
    MTF_ASSIGN_OR_RETURN(token.lstrip, element.Bool("lstrip", false));
    MTF_ASSIGN_OR_RETURN(token.rstrip, element.Bool("rstrip", false));
    MTF_ASSIGN_OR_RETURN(token.normalized,
                         element.Bool("normalized", !token.special));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens,
                                   const std::vector<std::string>& patterns)
    : tokens_(std::move(tokens)), token_of_node_({-1}) {
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (patterns[i].empty()) continue;
    uint32_t node = 0;
    for (const char byte : patterns[i]) {
      const uint64_t key = uint64_t{node} << 8 | static_cast<uint8_t>(byte);
      const auto [found, added] =
          next_.try_emplace(key, static_cast<uint32_t>(token_of_node_.size()));
      if (added) token_of_node_.push_back(-1);
      node = found->second;
    }
    token_of_node_[node] = static_cast<int32_t>(i);
    begins_[static_cast<uint8_t>(patterns[i][0])] = true;
  }
}

const AddedToken* AddedTokenFinder::LongestAt(absl::string_view text, size_t at,
                                              size_t& bytes) const {
  const AddedToken* longest = nullptr;
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto found =
        next_.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[i]));
    if (found == next_.end()) break;
    node = found->second;
    if (token_of_node_[node] < 0) continue;
    longest = &tokens_[token_of_node_[node]];
    bytes = i + 1 - at;
  }
  return longest;
}

std::vector<AddedTokenFinder::Part> AddedTokenFinder::Split(
    absl::string_view text, bool find_special) const {
  std::vector<Part> parts;
  size_t done = 0;  // everything before is in parts
  const auto add = [&](size_t begin, size_t end, const AddedToken* token) {
    parts.push_back(
        {{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, token});
  };
  for (size_t at = 0; !next_.empty() && at < text.size();) {
    if (!begins_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    size_t bytes = 1;
    const AddedToken* token = LongestAt(text, at, bytes);
    if (token == nullptr) {
      ++at;
      continue;
    }
    // A token that does not count hides those that begin inside of it, as in
    // the reference implementation.
    size_t begin = at, end = at + bytes;
    at = end;
    if ((token->special && !find_special) ||
        (token->single_word && !IsSingleWord(text, begin, end))) {
      continue;
    }
    if (token->lstrip) begin = std::max(WithoutSpaceBefore(text, begin), done);
    if (token->rstrip) end = WithoutSpaceAfter(text, end);
    if (done < begin) add(done, begin, nullptr);
    add(begin, end, token);
    done = end;
  }
  if (done < text.size()) add(done, text.size(), nullptr);
  return parts;
}

}  // namespace mtf::train
