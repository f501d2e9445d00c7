// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/strict_json.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "layouts/text_items.h"
#include "nlohmann/json.hpp"

namespace mtf::train {

// Receives the values of a text one by one, so that no tree is built on trust.
class JsonBuilder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;
  using Kind = JsonNode::Kind;

  explicit JsonBuilder(JsonDocument::Limits limits) : limits_(limits) {}

  // The events of the parser. Each returns whether parsing goes on.
  bool null() {
    Add(Kind::kNull);
    return true;
  }
  bool boolean(bool value) {
    Add(Kind::kBool).integer = value ? 1 : 0;
    return true;
  }
  bool number_integer(number_integer_t value) {
    Add(Kind::kInteger).integer = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) {
    if (value <=
        static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max())) {
      return number_integer(static_cast<number_integer_t>(value));
    }
    return number_float(static_cast<double>(value), "");
  }
  bool number_float(number_float_t value, const string_t&) {
    Add(Kind::kNumber).number = value;
    return true;
  }
  bool string(string_t& value) {
    const auto [begin, size] = Keep(value);
    Add(Kind::kText).text = {begin, size};
    return true;
  }
  bool binary(binary_t&) { return Fail("a binary value"); }
  bool start_object(size_t) { return Open(Kind::kObject); }
  bool start_array(size_t) { return Open(Kind::kArray); }
  bool key(string_t& value) {
    key_ = Keep(value);
    return true;
  }
  bool end_object() {
    const uint32_t object = open_.back();
    return Close() && HasDistinctKeys(object);
  }
  bool end_array() { return Close(); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) {
    absl::string_view reason = error.what();
    // "[json.exception.parse_error.101] parse error at ...: syntax error ..."
    const size_t colon = reason.find(": ");
    if (colon != reason.npos) reason.remove_prefix(colon + 2);
    return Fail(absl::StrCat("character ", position, ": ", Escaped(reason)));
  }

  const std::string& error() const { return error_; }
  JsonDocument Take() { return std::move(document_); }

 private:
  bool Fail(absl::string_view error) {
    if (error_.empty()) error_ = std::string(error);
    return false;
  }
  JsonDocument::Node& Add(Kind kind) {
    JsonDocument::Node& node = document_.nodes_.emplace_back();
    node.kind = kind;
    node.end = static_cast<uint32_t>(document_.nodes_.size());
    std::tie(node.key_begin, node.key_size) = std::exchange(key_, {0, 0});
    return node;
  }
  bool Open(Kind kind) {
    if (static_cast<int>(open_.size()) >= limits_.most_depth) {
      return Fail(absl::StrCat("arrays or objects are nested more than ",
                               limits_.most_depth, " deep"));
    }
    Add(kind);
    open_.push_back(static_cast<uint32_t>(document_.nodes_.size() - 1));
    return true;
  }
  bool Close() {
    document_.nodes_[open_.back()].end =
        static_cast<uint32_t>(document_.nodes_.size());
    open_.pop_back();
    return true;
  }
  std::pair<uint32_t, uint32_t> Keep(absl::string_view text) {
    const auto begin = static_cast<uint32_t>(document_.texts_.size());
    document_.texts_.append(text.data(), text.size());
    return {begin, static_cast<uint32_t>(text.size())};
  }
  absl::string_view KeyOf(uint32_t node) const {
    const JsonDocument::Node& at = document_.nodes_[node];
    return absl::string_view(document_.texts_)
        .substr(at.key_begin, at.key_size);
  }
  bool HasDistinctKeys(uint32_t object) {
    std::vector<uint32_t> members;
    for (uint32_t i = object + 1; i < document_.nodes_[object].end;
         i = document_.nodes_[i].end) {
      members.push_back(i);
    }
    std::sort(members.begin(), members.end(),
              [this](uint32_t a, uint32_t b) { return KeyOf(a) < KeyOf(b); });
    const auto twice = std::adjacent_find(
        members.begin(), members.end(),
        [this](uint32_t a, uint32_t b) { return KeyOf(a) == KeyOf(b); });
    if (twice == members.end()) return true;
    return Fail(absl::StrCat("the name ", Quoted(KeyOf(*twice)),
                             " occurs twice in one object"));
  }

  JsonDocument::Limits limits_;
  JsonDocument document_;
  std::vector<uint32_t> open_;  // arrays and objects around the position
  std::pair<uint32_t, uint32_t> key_ = {0, 0};
  std::string error_;
};

absl::StatusOr<JsonDocument> JsonDocument::Parse(absl::string_view text,
                                                 Limits limits) {
  if (static_cast<int64_t>(text.size()) > limits.most_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the text has ", text.size(),
                                                   " bytes; the limit is ",
                                                   limits.most_bytes));
  }
  JsonBuilder builder(limits);
  const bool parsed = nlohmann::json::sax_parse(
      text.data(), text.data() + text.size(), &builder);
  if (!parsed) return absl::InvalidArgumentError(builder.error());
  return builder.Take();
}

JsonNode::Kind JsonNode::kind() const { return document_->nodes_[index_].kind; }

absl::string_view JsonNode::key() const {
  const JsonDocument::Node& node = document_->nodes_[index_];
  return absl::string_view(document_->texts_)
      .substr(node.key_begin, node.key_size);
}

absl::string_view JsonNode::text() const {
  const JsonDocument::Node& node = document_->nodes_[index_];
  if (node.kind != Kind::kText) return "";
  return absl::string_view(document_->texts_)
      .substr(node.text.begin, node.text.size);
}

int64_t JsonNode::integer() const {
  const JsonDocument::Node& node = document_->nodes_[index_];
  return is(Kind::kInteger) || is(Kind::kBool) ? node.integer : 0;
}

double JsonNode::number() const {
  const JsonDocument::Node& node = document_->nodes_[index_];
  if (is(Kind::kInteger)) return static_cast<double>(node.integer);
  return is(Kind::kNumber) ? node.number : 0;
}

std::vector<JsonNode> JsonNode::children() const {
  std::vector<JsonNode> children;
  if (!is(Kind::kArray) && !is(Kind::kObject)) return children;
  const std::vector<JsonDocument::Node>& nodes = document_->nodes_;
  for (uint32_t i = index_ + 1; i < nodes[index_].end; i = nodes[i].end) {
    children.push_back(JsonNode(document_, i));
  }
  return children;
}

std::string JsonText(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace mtf::train
