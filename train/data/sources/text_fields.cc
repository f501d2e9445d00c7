// SPDX-License-Identifier: Apache-2.0
#include "train/data/sources/text_fields.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "nlohmann/json.hpp"

namespace mtf::train {
namespace {

// The number of bytes of the character whose first byte is `lead`, and the
// range of its second byte, which excludes overlong forms and surrogates. A
// length of 0 for a byte that begins none.
struct Utf8Lead {
  int length = 0;
  uint8_t low = 0x80, high = 0xbf;
};

Utf8Lead Utf8LeadOf(uint8_t lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xc2) return {0};
  if (lead < 0xe0) return {2};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead < 0xf0) return {3};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead < 0xf4) return {4};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

// Keeps some string fields of the outermost object, and the first error.
class TextFieldReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TextFieldReader(const std::vector<std::string>& names)
      : values(names.size()), found(names.size()), names_(names) {}

  std::vector<std::string> values;
  std::vector<bool> found;
  std::string error;

  bool null() override { return Other("null"); }
  bool boolean(bool) override { return Other("a bool"); }
  bool number_integer(number_integer_t) override { return Other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return Other("a number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Other("a number");
  }
  bool binary(binary_t&) override { return Other("binary"); }
  bool string(string_t& value) override {
    if (depth_ == 0) return Other("a string");
    if (depth_ == 1 && wanted_ >= 0) {
      values[wanted_] = std::move(value);
      found[wanted_] = true;
      wanted_ = -1;
    }
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ == 1 && wanted_ >= 0) return Other("an object");
    ++depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    const auto at = std::find(names_.begin(), names_.end(), name);
    wanted_ = at == names_.end() ? -1 : static_cast<int>(at - names_.begin());
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (!Other("an array")) return false;
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error = absl::StrCat("it is not JSON at byte ", position);
    return false;
  }

 private:
  // A value that is not a string, where an object or a text must be.
  bool Other(absl::string_view what) {
    if (depth_ == 0) {
      error = absl::StrCat("it is ", what, ", not a JSON object");
      return false;
    }
    if (depth_ == 1 && wanted_ >= 0) {
      error = absl::StrCat("its field ", Quoted(names_[wanted_]), " is ", what,
                           ", not a text");
      return false;
    }
    return true;
  }

  const std::vector<std::string>& names_;
  int64_t depth_ = 0;
  int wanted_ = -1;  // the name whose value comes next
};

}  // namespace

size_t FirstInvalidUtf8(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const Utf8Lead lead = Utf8LeadOf(byte(i));
    if (lead.length == 0 ||
        text.size() - i < static_cast<size_t>(lead.length)) {
      return i;
    }
    for (int j = 1; j < lead.length; ++j) {
      const uint8_t low = j == 1 ? lead.low : 0x80;
      const uint8_t high = j == 1 ? lead.high : 0xbf;
      if (byte(i + j) < low || byte(i + j) > high) return i;
    }
    i += lead.length;
  }
  return absl::string_view::npos;
}

absl::StatusOr<std::vector<std::string>> JsonTextFields(
    absl::string_view line, const std::vector<std::string>& names) {
  TextFieldReader reader(names);
  const bool parsed = nlohmann::json::sax_parse(
      line.data(), line.data() + line.size(), &reader);
  if (!parsed) return absl::DataLossError(reader.error);
  for (size_t i = 0; i < names.size(); ++i) {
    if (reader.found[i]) continue;
    return absl::DataLossError(
        absl::StrCat("it has no field ", Quoted(names[i])));
  }
  return std::move(reader.values);
}

absl::StatusOr<std::vector<std::string>> TabbedPair(absl::string_view line) {
  const auto tabs = std::count(line.begin(), line.end(), '\t');
  if (tabs != 1) {
    return absl::DataLossError(
        absl::StrCat("it has ", Plural(tabs + 1, "column"),
                     ", not an input, a tab and a target"));
  }
  return std::vector<std::string>(absl::StrSplit(line, '\t'));
}

}  // namespace mtf::train
