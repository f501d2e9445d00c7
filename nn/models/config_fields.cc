// SPDX-License-Identifier: Apache-2.0
#include "nn/models/config_fields.h"

#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "mtf/status.h"
#include "nlohmann/json.hpp"

namespace mtf::nn {
namespace {

using ConfigJson = nlohmann::json;

constexpr size_t kMostConfigBytes = size_t{1} << 20;
constexpr int kMostConfigDepth = 16;
constexpr double kMostSize = 2147483647;

// Whether brackets of `text` are nested deeper than the parser's recursion may
// go. Those in strings count too, which only rejects strange files.
bool IsTooDeep(absl::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kMostConfigDepth) return true;
  }
  return false;
}

template <class Value, class Map, class Nested>
void Flatten(const ConfigJson& json, const std::string& name, Map& values,
             Nested& nested) {
  const auto inner = [&](const std::string& key) {
    return name.empty() ? key : absl::StrCat(name, ".", key);
  };
  if (json.is_object()) {
    nested[name] = -1;
    for (const auto& [key, value] : json.items()) {
      Flatten<Value>(value, inner(key), values, nested);
    }
  } else if (json.is_array()) {
    nested[name] = static_cast<int64_t>(json.size());
    for (size_t i = 0; i < json.size(); ++i) {
      Flatten<Value>(json[i], inner(absl::StrCat(i)), values, nested);
    }
  } else if (json.is_boolean()) {
    values[name] = Value(json.get<bool>());
  } else if (json.is_number()) {
    values[name] = Value(json.get<double>());
  } else if (json.is_string()) {
    values[name] = Value(json.get<std::string>());
  } else if (json.is_null()) {
    values[name] = Value();
  }
}

// The text of a field, from a file: escaped, and truncated in messages.
template <class Value>
std::string FieldText(const Value& value) {
  if (const bool* flag = std::get_if<bool>(&value)) {
    return *flag ? "true" : "false";
  }
  if (const double* number = std::get_if<double>(&value)) {
    return absl::StrCat(*number);
  }
  const std::string text = absl::Utf8SafeCEscape(std::get<std::string>(value));
  return text.size() <= 80 ? text : absl::StrCat(text.substr(0, 80), "...");
}

}  // namespace

absl::StatusOr<ConfigFields> ConfigFields::Parse(absl::string_view text) {
  if (text.size() > kMostConfigBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the config of the model has ", text.size(),
                     " bytes, more than ", kMostConfigBytes));
  }
  if (IsTooDeep(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the config of the model is nested more than ",
                     kMostConfigDepth, " deep"));
  }
  const ConfigJson json = ConfigJson::parse(text.begin(), text.end(), nullptr,
                                            /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the config of the model is not a JSON object",
                     "\n  help     give the file config.json of the model"));
  }
  ConfigFields fields;
  Flatten<Value>(json, "", fields.values_, fields.nested_);
  return fields;
}

const ConfigFields::Value* ConfigFields::Find(absl::string_view name) const {
  asked_.emplace(name);
  const auto at = values_.find(name);
  if (at == values_.end() ||
      std::holds_alternative<std::monostate>(at->second)) {
    return nullptr;
  }
  return &at->second;
}

bool ConfigFields::Has(absl::string_view name) const {
  return Find(name) != nullptr;
}

bool ConfigFields::IsNull(absl::string_view name) const {
  asked_.emplace(name);
  const auto at = values_.find(name);
  return at != values_.end() &&
         std::holds_alternative<std::monostate>(at->second);
}

void ConfigFields::Fail(absl::string_view name, absl::string_view problem,
                        absl::string_view help) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" of the model's config ", problem,
                   help.empty() ? "" : absl::StrCat("\n  help     ", help)));
}

void ConfigFields::RejectInner(absl::string_view name, absl::string_view kind) {
  const std::string inside = absl::StrCat(name, ".");
  const auto at = values_.lower_bound(inside);
  if (at == values_.end() || !absl::StartsWith(at->first, inside)) return;
  Fail(name, absl::StrCat("is a list or an object, not ", kind));
}

template <class T>
const T* ConfigFields::Get(absl::string_view name, absl::string_view kind) {
  const Value* value = Find(name);
  if (value == nullptr) {
    RejectInner(name, kind);
    return nullptr;
  }
  const T* typed = std::get_if<T>(value);
  if (typed == nullptr) {
    Fail(name, absl::StrCat("is \"", FieldText(*value), "\", not ", kind));
  }
  return typed;
}

int64_t ConfigFields::Size(absl::string_view name, int64_t absent) {
  const double* value = Get<double>(name, "a size");
  if (value == nullptr) return absent;
  if (*value >= 1 && *value <= kMostSize && *value == std::floor(*value)) {
    return static_cast<int64_t>(*value);
  }
  Fail(name, absl::StrCat("is ", *value, ", not a size from 1 to 2^31 - 1"));
  return absent;
}

int64_t ConfigFields::Size(absl::string_view name) {
  if (!Has(name)) Fail(name, "is missing");
  return Size(name, 1);
}

int64_t ConfigFields::Layers(absl::string_view name, int64_t absent) {
  const int64_t layers = Size(name, absent);
  if (layers <= kMostLayers) return layers;
  Fail(name,
       absl::StrCat("is ", layers, ", more than ", kMostLayers, " layers"));
  return absent;
}

int64_t ConfigFields::Layers(absl::string_view name) {
  if (!Has(name)) Fail(name, "is missing");
  return Layers(name, 1);
}

int64_t ConfigFields::Integer(absl::string_view name, int64_t absent) {
  const double* value = Get<double>(name, "an integer");
  if (value == nullptr) return absent;
  if (std::abs(*value) <= kMostSize && *value == std::floor(*value)) {
    return static_cast<int64_t>(*value);
  }
  Fail(name, absl::StrCat("is ", *value, ", not an integer"));
  return absent;
}

double ConfigFields::Number(absl::string_view name) {
  if (!Has(name)) Fail(name, "is missing");
  return Number(name, 1);
}

double ConfigFields::Number(absl::string_view name, double absent) {
  const double* value = Get<double>(name, "a number");
  return value == nullptr ? absent : *value;
}

double ConfigFields::Epsilon(absl::string_view name, double absent) {
  const double value = Number(name, absent);
  const auto rounded = static_cast<float>(value);
  if (rounded > 0 && std::isfinite(rounded)) return value;
  Fail(name, absl::StrCat("is ", value, ", not a positive number of f32"),
       absl::StrCat("rows without variance need it; leave the field out for ",
                    absent));
  return absent;
}

bool ConfigFields::Flag(absl::string_view name, bool absent) {
  const bool* value = Get<bool>(name, "true or false");
  return value == nullptr ? absent : *value;
}

std::string ConfigFields::Text(absl::string_view name,
                               absl::string_view absent) {
  const std::string* value = Get<std::string>(name, "a text");
  return value == nullptr ? std::string(absent) : *value;
}

void ConfigFields::SetDefault(absl::string_view name, absl::string_view text) {
  if (!Has(name)) values_[std::string(name)] = std::string(text);
}

std::vector<int64_t> ConfigFields::Sizes(absl::string_view name,
                                         const std::vector<int64_t>& absent) {
  constexpr absl::string_view kNotAList = "is not a list of sizes";
  if (Has(name)) Fail(name, kNotAList);
  const auto list = nested_.find(name);
  if (list == nested_.end()) return absent;
  if (list->second < 0) Fail(name, kNotAList);
  if (list->second == 0) {
    Fail(name, "is an empty list", "give one size or more, or leave it out");
  }
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < list->second && status_.ok(); ++i) {
    const std::string entry = absl::StrCat(name, ".", i);
    if (IsNull(entry)) Fail(entry, "is null, not a size");
    sizes.push_back(Size(entry));
  }
  return status_.ok() ? sizes : absent;
}

void ConfigFields::RejectUnknown() {
  asked_.emplace("model_type");
  const auto reject = [&](const std::string& name) {
    if (asked_.contains(name)) return;
    const std::string shown = absl::Utf8SafeCEscape(name).substr(0, 80),
                      nearest =
                          NearestName(name, {asked_.begin(), asked_.end()});
    Fail(shown, "is unknown",
         nearest.empty()
             ? absl::StrCat("the fields are ", absl::StrJoin(asked_, ", "))
             : absl::StrCat("did you mean \"", nearest, "\"?"));
  };
  for (const auto& [name, value] : values_) reject(name);
  for (const auto& [name, entries] : nested_) {
    // What is in others is among the values.
    const auto inner = values_.lower_bound(absl::StrCat(name, "."));
    const bool is_empty =
        inner == values_.end() ||
        !absl::StartsWith(inner->first, absl::StrCat(name, "."));
    if (is_empty && !name.empty()) reject(name);
  }
}

void ConfigFields::Require(absl::string_view name, absl::string_view only) {
  const Value* value = Find(name);
  if (value == nullptr) return RejectInner(name, only);
  if (FieldText(*value) == only) return;
  Fail(name, absl::StrCat("is ", FieldText(*value), ", which is not supported"),
       absl::StrCat("the only value supported is ", only));
}

void ConfigFields::RejectPresent(absl::string_view name,
                                 absl::string_view problem,
                                 absl::string_view help) {
  if (Has(name) || nested_.contains(name)) Fail(name, problem, help);
}

void ConfigFields::RejectObjectsIn(absl::string_view name) {
  const std::string inside = absl::StrCat(name, ".");
  for (auto at = nested_.lower_bound(inside);
       at != nested_.end() && absl::StartsWith(at->first, inside); ++at) {
    if (at->second < 0) Fail(at->first, "is an object, which is not supported");
  }
}

absl::StatusOr<std::string> ConfigWithType(absl::string_view config,
                                           absl::string_view type) {
  const std::string text(config.empty() ? "{}" : config);
  MTF_ASSIGN_OR_RETURN(const ConfigFields fields, ConfigFields::Parse(text));
  if (fields.Has("model_type")) return text;
  // Keeps the order of the fields. Parse() has accepted the text.
  auto json = nlohmann::ordered_json::parse(text);
  json["model_type"] = type;
  return absl::StrCat(json.dump(2), "\n");
}

}  // namespace mtf::nn
