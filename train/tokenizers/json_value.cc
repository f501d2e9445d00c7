// SPDX-License-Identifier: Apache-2.0
#include "train/tokenizers/json_value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/status.h"

namespace mtf::train {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostJsonBytes = int64_t{1} << 28;
constexpr absl::string_view kFileHelp =
    "use the file as the model's publisher provides it";

const Json& Node(const void* node) { return *static_cast<const Json*>(node); }

// Finds where a text stops being JSON; accepts everything else.
class JsonErrorFinder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&,
                   const Json::exception&) override {
    position_ = position;
    return false;
  }
  std::size_t position() const { return position_; }

 private:
  std::size_t position_ = 0;
};

}  // namespace

struct JsonValue::Document {
  std::string file;
  Json root;
};

absl::StatusOr<JsonValue> JsonValue::ReadFile(const std::string& path) {
  const absl::StatusOr<std::string> text =
      ReadTextFile(path, "tokenizer file", kMostJsonBytes);
  if (!text.ok()) {
    return absl::Status(
        text.status().code(),
        absl::StrCat(text.status().message(), DetailLine("help", kFileHelp)));
  }
  return Parse(*text, path);
}

absl::StatusOr<JsonValue> JsonValue::Parse(absl::string_view text,
                                           std::string file) {
  auto document = std::make_shared<Document>();
  document->file = std::move(file);
  document->root = Json::parse(text.begin(), text.end(), nullptr,
                               /*allow_exceptions=*/false);
  if (document->root.is_discarded()) {
    JsonErrorFinder finder;
    Json::sax_parse(text.begin(), text.end(), &finder);
    const size_t byte = std::min(finder.position(), text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + byte, '\n');
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(document->file), " is not JSON from line ", line,
                     " on (byte ", byte, ")", DetailLine("help", kFileHelp)));
  }
  const void* root = &document->root;
  return JsonValue(std::move(document), root, "");
}

const std::string& JsonValue::file() const { return document_->file; }

bool JsonValue::IsString() const { return exists() && Node(node_).is_string(); }
bool JsonValue::IsObject() const { return exists() && Node(node_).is_object(); }
bool JsonValue::IsArray() const { return exists() && Node(node_).is_array(); }
bool JsonValue::IsBool() const { return exists() && Node(node_).is_boolean(); }

std::string JsonValue::KeyOf(absl::string_view member) const {
  return absl::StrCat(key_, key_.empty() ? "" : ".", member);
}

JsonValue JsonValue::operator[](absl::string_view member) const {
  const void* found = nullptr;
  if (IsObject()) {
    const auto at = Node(node_).find(std::string(member));
    if (at != Node(node_).end() && !at->is_null()) found = &*at;
  }
  return JsonValue(document_, found, KeyOf(member));
}

absl::StatusOr<JsonValue> JsonValue::Get(absl::string_view member) const {
  if (!IsObject()) return WrongType("an object");
  JsonValue value = (*this)[member];
  if (!value.exists()) return value.Error("is missing", kFileHelp);
  return value;
}

absl::StatusOr<std::vector<JsonValue>> JsonValue::Elements() const {
  if (!IsArray()) return WrongType("an array");
  std::vector<JsonValue> elements;
  elements.reserve(Node(node_).size());
  for (const Json& element : Node(node_)) {
    elements.push_back(JsonValue(
        document_, &element, absl::StrCat(key_, "[", elements.size(), "]")));
  }
  return elements;
}

absl::Status JsonValue::ForEachMember(
    const std::function<absl::Status(const std::string& name,
                                     const JsonValue& value)>& visit) const {
  if (!IsObject()) return WrongType("an object");
  for (auto at = Node(node_).begin(); at != Node(node_).end(); ++at) {
    MTF_RETURN_IF_ERROR(
        visit(at.key(), JsonValue(document_, &*at, KeyOf(at.key()))));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> JsonValue::String() const {
  if (!IsString()) return WrongType("a string");
  return Node(node_).get_ref<const std::string&>();
}

absl::StatusOr<int64_t> JsonValue::Integer() const {
  if (!exists() || !Node(node_).is_number_integer()) {
    return WrongType("an integer");
  }
  // A number of 2^63 or more is an unsigned one.
  if (Node(node_).is_number_unsigned() &&
      Node(node_).get<uint64_t>() > uint64_t{INT64_MAX}) {
    return Error("is above 2^63 - 1", kFileHelp);
  }
  return Node(node_).get<int64_t>();
}

absl::StatusOr<bool> JsonValue::Bool() const {
  if (!IsBool()) return WrongType("true or false");
  return Node(node_).get<bool>();
}

absl::StatusOr<std::string> JsonValue::String(
    absl::string_view member, absl::string_view otherwise) const {
  const JsonValue value = (*this)[member];
  if (!value.exists()) return std::string(otherwise);
  return value.String();
}

absl::StatusOr<int64_t> JsonValue::Integer(absl::string_view member,
                                           int64_t otherwise) const {
  const JsonValue value = (*this)[member];
  if (!value.exists()) return otherwise;
  return value.Integer();
}

absl::StatusOr<bool> JsonValue::Bool(absl::string_view member,
                                     bool otherwise) const {
  const JsonValue value = (*this)[member];
  if (!value.exists()) return otherwise;
  return value.Bool();
}

absl::Status JsonValue::CheckMembers(
    std::vector<absl::string_view> known) const {
  return ForEachMember([&](const std::string& name, const JsonValue& value) {
    if (std::find(known.begin(), known.end(), name) != known.end() ||
        Node(value.node_).is_null()) {
      return absl::OkStatus();
    }
    return value.Unsupported(
        "is an option that is not supported",
        absl::StrCat("supported here: ", absl::StrJoin(known, ", ")));
  });
}

absl::Status JsonValue::Error(absl::string_view problem,
                              absl::string_view help) const {
  return absl::InvalidArgumentError(absl::StrCat(
      key_.empty() ? "the value" : absl::StrCat("key ", Quoted(key_)), " of ",
      Quoted(file()), " ", problem, DetailLine("help", help)));
}

absl::Status JsonValue::Unsupported(absl::string_view problem,
                                    absl::string_view help) const {
  return absl::UnimplementedError(Error(problem, help).message());
}

absl::Status JsonValue::WrongType(absl::string_view expected) const {
  if (!exists()) return Error("is missing", kFileHelp);
  return Error(absl::StrCat("is a value of type ", Node(node_).type_name(),
                            ", not ", expected),
               kFileHelp);
}

}  // namespace mtf::train
