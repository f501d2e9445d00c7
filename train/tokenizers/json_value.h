// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_TOKENIZERS_JSON_VALUE_H_
#define TRAIN_TOKENIZERS_JSON_VALUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mtf::train {

// A value of a JSON file, which knows its file and its key, so that every error
// names both:
//
//   key "model.merges[7]" of "gpt2/tokenizer.json" is a number, not a string
//
// A value may be missing: that of a key that the file lacks, or has as null.
// Copies share the file.
class JsonValue {
 public:
  // Reads the file `path`: the errors of ReadTextFile, or kInvalidArgument with
  // the line for text that is not JSON.
  static absl::StatusOr<JsonValue> ReadFile(const std::string& path);
  // The same from the text of a file; `file` is its name in errors.
  static absl::StatusOr<JsonValue> Parse(absl::string_view text,
                                         std::string file);

  bool exists() const { return node_ != nullptr; }
  bool IsString() const;
  bool IsObject() const;
  bool IsArray() const;
  bool IsBool() const;
  const std::string& file() const;
  const std::string& key() const { return key_; }

  // Members of an object; missing if there is none, or if this is no object.
  JsonValue operator[](absl::string_view member) const;
  // kInvalidArgument if the member is missing.
  absl::StatusOr<JsonValue> Get(absl::string_view member) const;

  // Elements of an array, and members of an object in the order of their names.
  // kInvalidArgument if this is something else.
  absl::StatusOr<std::vector<JsonValue>> Elements() const;
  absl::Status ForEachMember(
      const std::function<absl::Status(const std::string& name,
                                       const JsonValue& value)>& visit) const;

  // The value itself. kInvalidArgument if it has another type.
  absl::StatusOr<std::string> String() const;
  absl::StatusOr<int64_t> Integer() const;
  absl::StatusOr<bool> Bool() const;

  // Members with a default for those that are missing.
  absl::StatusOr<std::string> String(absl::string_view member,
                                     absl::string_view otherwise) const;
  absl::StatusOr<int64_t> Integer(absl::string_view member,
                                  int64_t otherwise) const;
  absl::StatusOr<bool> Bool(absl::string_view member, bool otherwise) const;

  // kUnimplemented if this object has a member that is not in `known`: options
  // of newer files must not be ignored.
  absl::Status CheckMembers(std::vector<absl::string_view> known) const;

  // An error about this value: 'key "a.b" of "file" ' followed by `problem`.
  absl::Status Error(absl::string_view problem, absl::string_view help) const;
  absl::Status Unsupported(absl::string_view problem,
                           absl::string_view help) const;

 private:
  struct Document;
  JsonValue(std::shared_ptr<const Document> document, const void* node,
            std::string key)
      : document_(std::move(document)), node_(node), key_(std::move(key)) {}

  absl::Status WrongType(absl::string_view expected) const;
  std::string KeyOf(absl::string_view member) const;

  std::shared_ptr<const Document> document_;
  const void* node_ = nullptr;  // in document_, or null if missing
  std::string key_;             // "model.merges[7]"
};

}  // namespace mtf::train

#endif  // TRAIN_TOKENIZERS_JSON_VALUE_H_
