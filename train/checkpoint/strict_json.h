// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_CHECKPOINT_STRICT_JSON_H_
#define TRAIN_CHECKPOINT_STRICT_JSON_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

class JsonDocument;

// A value of a JsonDocument, valid as long as the document.
class JsonNode {
 public:
  enum class Kind : uint8_t {
    kNull,
    kBool,
    kInteger,  // fits an int64_t
    kNumber,   // any other number
    kText,
    kArray,
    kObject,
  };
  Kind kind() const;
  bool is(Kind expected) const { return kind() == expected; }
  // The name of a member of an object; "" elsewhere.
  absl::string_view key() const;
  // The value of a kText, kInteger (or kBool), and kNumber or kInteger.
  absl::string_view text() const;
  int64_t integer() const;
  double number() const;
  // The elements of an array or the members of an object, in their order.
  std::vector<JsonNode> children() const;

 private:
  friend class JsonDocument;
  JsonNode(const JsonDocument* document, uint32_t index)
      : document_(document), index_(index) {}
  const JsonDocument* document_;
  uint32_t index_;
};

// A JSON text from an untrusted file. Takes at most 24 bytes of memory for each
// value in addition to the texts.
class JsonDocument {
 public:
  struct Limits {
    int most_depth = 8;
    int64_t most_bytes = 100'000'000;
  };
  // kInvalidArgument, with the position, for a text that is not JSON in UTF-8,
  // has two members of one name in an object, or exceeds a limit.
  static absl::StatusOr<JsonDocument> Parse(absl::string_view text,
                                            Limits limits);
  static absl::StatusOr<JsonDocument> Parse(absl::string_view text) {
    return Parse(text, Limits());
  }
  JsonNode root() const { return JsonNode(this, 0); }

 private:
  friend class JsonNode;
  friend class JsonBuilder;
  struct Node {
    JsonNode::Kind kind = JsonNode::Kind::kNull;
    uint32_t end = 0;  // the index after the last value in this one
    // In `texts`.
    uint32_t key_begin = 0, key_size = 0;
    union {
      int64_t integer = 0;
      double number;
      struct {
        uint32_t begin, size;
      } text;
    };
  };
  std::vector<Node> nodes_;  // in the order of the text
  std::string texts_;
};

// The JSON text of a string: quoted and escaped. Invalid UTF-8 is replaced.
std::string JsonText(absl::string_view text);
// The JSON text of an object of strings: {"a": "b", ...}.
template <class Map>
std::string JsonObjectOfTexts(const Map& map) {
  std::string json = "{";
  for (const auto& [key, value] : map) {
    if (json.size() > 1) json += ", ";
    json += JsonText(key) + ": " + JsonText(value);
  }
  return json + "}";
}

}  // namespace mtf::train

#endif  // TRAIN_CHECKPOINT_STRICT_JSON_H_
