// SPDX-License-Identifier: Apache-2.0
#include "mtf/precision_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "mtf/status.h"

namespace mtf {
namespace {

struct Named {
  const char* name;
  Precision precision;
};

const Named kNamed[] = {
    {"float32", {}},
    {"bfloat16", {kFloat32, kBFloat16, kBFloat16, kFloat32}},
    {"mixed_bfloat16", {kFloat32, kFloat32, kBFloat16, std::nullopt}},
    {"pure_bfloat16", {kBFloat16, kBFloat16, kBFloat16, std::nullopt}},
    {"float16", {kFloat32, kFloat16, kFloat16, kFloat32}},
    {"mixed_float16", {kFloat32, kFloat32, kFloat16, std::nullopt}},
};

constexpr absl::string_view kAsUsed = "as_used";

const std::vector<std::string>& FieldNames() {
  static const auto& names = *new std::vector<std::string>{
      "master", "parameters", "activations", "gradients"};
  return names;
}

absl::Status Unknown(absl::string_view what, absl::string_view word,
                     const std::vector<std::string>& names) {
  const std::string nearest = NearestName(word, names);
  return absl::InvalidArgumentError(absl::StrCat(
      what, " \"", absl::CHexEscape(word.substr(0, 40)), "\" is not one of ",
      absl::StrJoin(names, ", "),
      nearest.empty() ? "" : absl::StrCat(": did you mean ", nearest, "?")));
}

// Parses a dtype, or "as_used" (nullopt) where `may_be_empty`.
absl::StatusOr<std::optional<DType>> ParseField(absl::string_view word,
                                                bool may_be_empty) {
  const std::pair<const char*, DType> dtypes[] = {
      {"float32", kFloat32}, {"f32", kFloat32},     {"bfloat16", kBFloat16},
      {"bf16", kBFloat16},   {"float16", kFloat16}, {"f16", kFloat16}};
  for (const auto& [name, dtype] : dtypes) {
    if (word == name) return dtype;
  }
  std::vector<std::string> names = {"float32", "bfloat16", "float16"};
  if (may_be_empty) names.emplace_back(kAsUsed);
  if (may_be_empty && word == kAsUsed) return std::optional<DType>();
  return Unknown("dtype", word, names);
}

absl::string_view FieldText(std::optional<DType> dtype) {
  if (!dtype.has_value()) return kAsUsed;
  return DTypeName(*dtype);
}

// Sets `field` of `precision`.
absl::Status SetField(absl::string_view field, absl::string_view word,
                      Precision& precision) {
  const std::vector<std::string>& names = FieldNames();
  if (std::find(names.begin(), names.end(), field) == names.end()) {
    return Unknown("field", field, names);
  }
  const bool may_be_empty = field == "activations" || field == "gradients";
  MTF_ASSIGN_OR_RETURN(const std::optional<DType> dtype,
                       ParseField(word, may_be_empty));
  if (field == "master") {
    precision.master = *dtype;
  } else if (field == "parameters") {
    precision.parameters = *dtype;
  } else if (field == "activations") {
    precision.activations = dtype;
  } else {
    precision.gradients = dtype;
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> PrecisionNames() {
  std::vector<std::string> names;
  for (const Named& named : kNamed) names.emplace_back(named.name);
  return names;
}

absl::StatusOr<Precision> ParsePrecision(absl::string_view text) {
  Precision precision;
  bool first = true;
  std::vector<absl::string_view> fields;
  for (absl::string_view item :
       absl::StrSplit(text, absl::ByAnyChar(", ;\t\n"), absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits(':', 1));
    if (item.find(':') == absl::string_view::npos) {
      const Named* found = nullptr;
      for (const Named& named : kNamed) {
        if (item == named.name) found = &named;
      }
      if (found == nullptr) {
        return Unknown("precision", item, PrecisionNames());
      }
      if (!first) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the name of a precision, \"", item, "\", comes first"));
      }
      precision = found->precision;
    } else {
      for (absl::string_view field : fields) {
        if (field != parts.first) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("field ", field, " is given twice"));
      }
      MTF_RETURN_IF_ERROR(SetField(parts.first, parts.second, precision));
      fields.push_back(parts.first);
    }
    first = false;
  }
  if (first) {
    return absl::InvalidArgumentError(
        absl::StrCat("the precision is empty; write one of ",
                     absl::StrJoin(PrecisionNames(), ", ")));
  }
  MTF_RETURN_IF_ERROR(precision.Validate());
  return precision;
}

std::string PrecisionText(const Precision& precision) {
  for (const Named& named : kNamed) {
    if (named.precision == precision) return named.name;
  }
  return absl::StrCat("master:", DTypeName(precision.master),
                      ",parameters:", DTypeName(precision.parameters),
                      ",activations:", FieldText(precision.activations),
                      ",gradients:", FieldText(precision.gradients));
}

}  // namespace mtf
