// SPDX-License-Identifier: Apache-2.0
#include "layouts/offload_rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/scope_pattern.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// In the order of OffloadKind.
constexpr absl::string_view kWords[] = {"parameters", "optimizer", "state"};
constexpr absl::string_view kOffloadHelp =
    "write \"parameters\", \"optimizer\" or \"state\", or names of variables "
    "as in \"embedding\" or \"layer_*/ffn\"";

bool IsWord(absl::string_view text) {
  return std::find(std::begin(kWords), std::end(kWords), text) !=
         std::end(kWords);
}

// The words, and the names of `variables` with the scopes that contain them, of
// which an item may be a misspelling.
std::vector<std::string> NamesToSelect(
    absl::Span<const OffloadVariable> variables) {
  std::set<std::string> names;
  for (absl::string_view word : kWords) names.emplace(word);
  for (const OffloadVariable& variable : variables) {
    const std::string& name = variable.name;
    for (size_t at = 0; at != std::string::npos;) {
      at = name.find('/', at + 1);
      names.insert(name.substr(0, at));
    }
  }
  return {names.begin(), names.end()};
}

// The names of `variables`, one of those that differ in numbers only.
std::vector<std::string> NamesButForNumbers(
    absl::Span<const OffloadVariable> variables) {
  std::set<std::string> patterns;
  std::vector<std::string> names;
  for (const OffloadVariable& variable : variables) {
    std::string pattern;
    for (absl::string_view component : absl::StrSplit(variable.name, '/')) {
      absl::StrAppend(&pattern, "/", PatternOfName(component));
    }
    if (patterns.insert(pattern).second) names.push_back(variable.name);
  }
  return names;
}

bool IsPattern(absl::string_view item) { return absl::StrContains(item, "*"); }

// What `item`, which selects none of `variables`, lacks.
std::string WhatIsMissing(absl::string_view item,
                          absl::Span<const OffloadVariable> variables) {
  if (item == "parameters") return "parameters";
  if (item == "optimizer") return "optimizer state";
  if (item == "state") return "state besides that of optimizers";
  // Components that differ may be those of another model, unless they are
  // misspelt.
  const std::string nearest =
      CorrectedPattern(item, NamesButForNumbers(variables));
  return absl::StrCat(
      IsPattern(item) ? "variable that it matches" : "variable of that name",
      absl::StartsWith(nearest, "**/")
          ? absl::StrCat("; did you mean ", Quoted(nearest), "?")
          : "");
}

std::string WithoutNumbers(std::string component) {
  std::erase_if(component,
                [](char c) { return absl::ascii_isdigit(c) || c == '*'; });
  return component;
}

// The pattern of `variables` of which `item` is probably a misspelling: with
// one component that is close to an existing one. "" if there is none.
std::string MisspelledPattern(absl::string_view item,
                              absl::Span<const OffloadVariable> variables) {
  const std::string nearest =
      CorrectedPattern(item, NamesButForNumbers(variables));
  const std::vector<std::string> written = absl::StrSplit(item, '/'),
                                 corrected = absl::StrSplit(nearest, '/');
  if (written.size() != corrected.size()) return "";
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i] == corrected[i]) continue;
    // Layers of other numbers are those of another model.
    if (WithoutNumbers(written[i]) == WithoutNumbers(corrected[i])) return "";
    return Misspelled(written[i], {corrected[i]}).empty() ? "" : nearest;
  }
  return "";
}

// Those of `variables` that no item names, of which another item may be a
// misspelling.
std::vector<OffloadVariable> WithoutNamed(
    absl::Span<const OffloadVariable> variables,
    absl::Span<const OffloadItem> items) {
  std::vector<OffloadVariable> unnamed;
  for (const OffloadVariable& variable : variables) {
    const bool is_named =
        std::any_of(items.begin(), items.end(), [&](const OffloadItem& item) {
          return !IsWord(item.text) && ScopeMatches(item.text, variable.name);
        });
    if (!is_named) unnamed.push_back(variable);
  }
  return unnamed;
}

}  // namespace

bool OffloadItem::Selects(OffloadKind kind, absl::string_view variable) const {
  if (IsWord(text)) return text == kWords[static_cast<size_t>(kind)];
  return ScopeMatches(text, variable);
}

absl::Status OffloadRules::Add(OffloadItem item) {
  if (absl::StrContains(item.text, ':')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is a rule, but [offload] names variables",
        DetailLine("help", absl::StrCat("write the rule before [offload], or "
                                        "after another section; here ",
                                        kOffloadHelp))));
  }
  if (!IsScopePattern(item.text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is not made of names of letters, digits, \"_\", \"-\" and \"*\" with "
        "single slashes between them",
        DetailLine("help", kOffloadHelp)));
  }
  for (const OffloadItem& before : items_) {
    if (before.text != item.text) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "is in [offload] twice", DetailLine("first", before.origin),
        DetailLine("second", item.origin),
        DetailLine("help", "keep one of the two")));
  }
  items_.push_back(std::move(item));
  return absl::OkStatus();
}

bool OffloadRules::Selects(OffloadKind kind, absl::string_view variable) const {
  return std::any_of(
      items_.begin(), items_.end(),
      [&](const OffloadItem& item) { return item.Selects(kind, variable); });
}

absl::Status OffloadRules::CheckItems(
    absl::Span<const OffloadVariable> variables, bool strict,
    std::vector<std::string>& notices) const {
  const std::vector<OffloadVariable> unnamed = WithoutNamed(variables, items_);
  for (const OffloadItem& item : items_) {
    const bool selects = std::any_of(
        variables.begin(), variables.end(), [&](const OffloadVariable& each) {
          return item.Selects(each.kind, each.name);
        });
    if (selects) continue;
    const std::string nearest =
        IsWord(item.text)      ? ""
        : IsPattern(item.text) ? MisspelledPattern(item.text, unnamed)
                               : Misspelled(item.text, NamesToSelect(unnamed));
    if (!nearest.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          IsPattern(item.text) ? "no variable matches "
                               : "no variable has the name ",
          Quoted(item.text), "; did you mean ", Quoted(nearest), "?",
          DetailLine("item", absl::StrCat(Quoted(item.text), " in [offload], ",
                                          item.origin)),
          DetailLine("help", absl::StrCat("write ", Quoted(nearest),
                                          ", or remove the item if another "
                                          "name is meant"))));
    }
    std::string notice =
        absl::StrCat("item ", Quoted(item.text), " of [offload] (", item.origin,
                     ") has no effect: the program has no ",
                     WhatIsMissing(item.text, variables));
    if (strict) {
      return absl::InvalidArgumentError(absl::StrCat(
          notice, DetailLine("help",
                             "remove the item, or allow items without effect "
                             "by leaving out --strict_layout")));
    }
    notices.push_back(std::move(notice));
  }
  return absl::OkStatus();
}

std::string OffloadRules::ToString() const {
  return absl::StrJoin(items_, ", ",
                       [](std::string* out, const OffloadItem& item) {
                         out->append(item.text);
                       });
}

}  // namespace mtf
