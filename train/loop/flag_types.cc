// SPDX-License-Identifier: Apache-2.0
#include "train/loop/flag_types.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "mtf/precision_text.h"

namespace mtf::train {
namespace {

bool ParseWhole(absl::string_view text, int64_t low, int64_t high,
                int64_t* value, std::string* error) {
  if (absl::SimpleAtoi(text, value) && *value >= low && *value <= high) {
    return true;
  }
  *error = absl::StrCat("a whole number from ", low, " to ", high);
  return false;
}

}  // namespace

bool AbslParseFlag(absl::string_view text, Size* flag, std::string* error) {
  return ParseWhole(text, 1, std::numeric_limits<int32_t>::max(), &flag->value,
                    error);
}

bool AbslParseFlag(absl::string_view text, Count* flag, std::string* error) {
  return ParseWhole(text, 0, std::numeric_limits<int32_t>::max(), &flag->value,
                    error);
}

bool AbslParseFlag(absl::string_view text, Depth* flag, std::string* error) {
  return ParseWhole(text, 1, 10000, &flag->value, error);
}

bool AbslParseFlag(absl::string_view text, Seed* flag, std::string* error) {
  int64_t value = 0;
  if (!ParseWhole(text, 0, std::numeric_limits<uint32_t>::max(), &value,
                  error)) {
    return false;
  }
  flag->value = static_cast<uint32_t>(value);
  return true;
}

// The comparisons are false for NaN, so it is rejected.
bool AbslParseFlag(absl::string_view text, Rate* flag, std::string* error) {
  if (absl::SimpleAtod(text, &flag->value) && flag->value > 0 &&
      flag->value <= 1000) {
    return true;
  }
  *error = "a number above 0 and at most 1000";
  return false;
}

bool AbslParseFlag(absl::string_view text, Fraction* flag, std::string* error) {
  if (absl::SimpleAtod(text, &flag->value) && flag->value >= 0 &&
      flag->value < 1) {
    return true;
  }
  *error = "a number from 0 to below 1";
  return false;
}

// --explain and --noexplain are parsed as "true" and "false".
bool AbslParseFlag(absl::string_view text, ExplainFormat* flag,
                   std::string* error) {
  if (text == "text" || text == "true") {
    *flag = ExplainFormat::kText;
  } else if (text == "full") {
    *flag = ExplainFormat::kFull;
  } else if (text == "none" || text == "false") {
    *flag = ExplainFormat::kNone;
  } else if (text == "json") {
    *flag = ExplainFormat::kJson;
  } else if (text == "html") {
    *flag = ExplainFormat::kHtml;
  } else {
    *error = "text, full, json, html or none";
    return false;
  }
  return true;
}

bool AbslParseFlag(absl::string_view text, TimeLimit* flag,
                   std::string* error) {
  if (text == "default") {
    flag->seconds = -1;
    return true;
  }
  if (absl::SimpleAtod(text, &flag->seconds) && flag->seconds >= 0 &&
      flag->seconds <= 1e9) {
    return true;
  }
  *error = "a number of seconds from 0, no limit, to 1e9, or default";
  return false;
}

std::string AbslUnparseFlag(Size flag) { return absl::StrCat(flag.value); }
std::string AbslUnparseFlag(Count flag) { return absl::StrCat(flag.value); }
std::string AbslUnparseFlag(Depth flag) { return absl::StrCat(flag.value); }
std::string AbslUnparseFlag(Seed flag) { return absl::StrCat(flag.value); }
std::string AbslUnparseFlag(Rate flag) { return absl::StrCat(flag.value); }
std::string AbslUnparseFlag(Fraction flag) { return absl::StrCat(flag.value); }
std::string AbslUnparseFlag(TimeLimit flag) {
  return flag.seconds < 0 ? "default" : absl::StrCat(flag.seconds);
}
std::string AbslUnparseFlag(ExplainFormat flag) {
  switch (flag) {
    case ExplainFormat::kNone:
      return "none";
    case ExplainFormat::kText:
      return "text";
    case ExplainFormat::kFull:
      return "full";
    case ExplainFormat::kJson:
      return "json";
    case ExplainFormat::kHtml:
      return "html";
  }
  return "";
}

bool AbslParseFlag(absl::string_view text, ModelPrecision* flag,
                   std::string* error) {
  const absl::StatusOr<Precision> precision = ParsePrecision(text);
  if (precision.ok()) {
    flag->precision = *precision;
    return true;
  }
  const absl::string_view message = precision.status().message();
  *error = absl::StrCat("a precision: ", message.substr(0, message.find('\n')));
  return false;
}

std::string AbslUnparseFlag(ModelPrecision flag) {
  return PrecisionText(flag.precision);
}

}  // namespace mtf::train
