// SPDX-License-Identifier: Apache-2.0
#include "layouts/layout_rules.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/read_file.h"
#include "mtf/scope_pattern.h"
#include "mtf/status.h"

namespace mtf {
namespace {

constexpr absl::string_view kForm =
    "write dimension:axis items, as in \"batch:data, d_ff:model\"; several "
    "axes as \"batch:pod+data\"";
constexpr RuleSection kSections[] = {
    RuleSection::kDefault, RuleSection::kScopes, RuleSection::kParameters,
    RuleSection::kOptimizer};
// These sections have no rules, so they are not a RuleSection.
constexpr absl::string_view kBudgetSection = "[budget]";
constexpr absl::string_view kOffloadSection = "[offload]";
// Follows the name of the section [parameters].
constexpr absl::string_view kKeepGathered = "keep_gathered";
// The former word for kKeepGathered. Its use is an error that suggests the new
// word.
constexpr absl::string_view kFormerKeepGathered = "gathered_once";

// The header of a section, "[parameters keep_gathered]".
struct SectionHeader {
  RuleSection section = RuleSection::kDefault;
  bool keep_gathered = false;
  std::vector<std::string> scopes = {};
  bool offload = false;  // names variables instead of rules

  static SectionHeader Of(const LayoutRule& rule) {
    return {rule.section, rule.keep_gathered, rule.scopes};
  }
  std::string Name() const {
    if (offload) return "offload";
    return absl::StrCat(RuleSectionName(section), keep_gathered ? " " : "",
                        keep_gathered ? kKeepGathered : "",
                        scopes.empty() ? "" : " ", absl::StrJoin(scopes, ", "));
  }
};

// The headers that are fixed texts.
std::vector<SectionHeader> FixedHeaders() {
  return {{RuleSection::kDefault},
          {RuleSection::kParameters},
          {RuleSection::kParameters, true},
          {RuleSection::kOptimizer},
          {RuleSection::kDefault, false, {}, true}};
}

// Joins the items of a header of several words, perhaps on several lines, which
// SplitItems has split.
std::vector<TextItem> JoinHeaders(absl::string_view text,
                                  std::vector<TextItem> items) {
  std::vector<TextItem> joined;
  for (size_t i = 0; i < items.size(); ++i) {
    joined.push_back(items[i]);
    if (items[i].text[0] != '[' || items[i].text.back() == ']') continue;
    size_t end = i + 1;
    while (end < items.size() &&
           items[end].text.find_first_of("[:]") == absl::string_view::npos) {
      ++end;
    }
    const size_t bracket = end == items.size()
                               ? absl::string_view::npos
                               : items[end].text.find_first_of("[:]");
    if (bracket == absl::string_view::npos || items[end].text[bracket] != ']') {
      continue;
    }
    joined.back().last = items[end].last;
    joined.back().text =
        text.substr(items[i].first - 1, items[end].last - items[i].first + 1);
    i = end;
  }
  return joined;
}

// The text of one LayoutRules, with errors that state a position in it: the
// line in a file or a text of several lines, else the number of the rule and
// its characters.
class RulesText {
 public:
  RulesText(absl::string_view text, absl::string_view origin, bool by_line)
      : text_(text),
        origin_(origin),
        by_line_(by_line),
        items_(JoinHeaders(text, SplitItems(text, /*comments=*/true))) {
    bool in_budget = false;
    for (const TextItem& item : items_) {
      if (IsSection(item)) {
        in_budget = item.text == kBudgetSection;
      } else {
        num_rules_ += !in_budget;
      }
    }
    if (BeginsWithPreset()) --num_rules_;
  }

  const std::vector<TextItem>& items() const { return items_; }
  static bool IsSection(const TextItem& item) { return item.text[0] == '['; }

  // Whether the text begins with the name of a preset, which a section
  // [offload] may follow: "megatron, [offload] optimizer".
  bool BeginsWithPreset() const {
    return items_.size() > 1 && IsLayoutName(items_[0].text) &&
           items_[1].text == kOffloadSection;
  }

  // Adds the text between items()[section] and the next section to `budget`.
  // Returns the index of the next section, or the number of items.
  absl::StatusOr<size_t> ParseBudget(size_t section, Budget& budget) const {
    size_t next = section + 1;
    while (next < items_.size() && !IsSection(items_[next])) ++next;
    const int64_t begin = items_[section].last;
    const int64_t end = next < items_.size()
                            ? items_[next].first - 1
                            : static_cast<int64_t>(text_.size());
    MTF_RETURN_IF_ERROR(budget.Add(text_.substr(begin, end - begin),
                                   {.origin = origin_,
                                    .first = begin,
                                    .line = items_[section].line,
                                    .by_line = by_line_}));
    return next;
  }

  // The position of an item. `number` counts rules from 1; 0 is a section.
  std::string Origin(const TextItem& item, int number) const {
    if (by_line_) return absl::StrCat(origin_, ":", item.line);
    const std::string prefix =
        origin_.empty() ? "" : absl::StrCat(origin_, ", ");
    if (number == 0) return absl::StrCat(prefix, item.Characters());
    return absl::StrCat(prefix, "rule ", number, " of ", num_rules_, ", ",
                        item.Characters());
  }

  // `details` are further lines, made by DetailLine.
  absl::Status Error(const TextItem& item, int number, absl::string_view what,
                     absl::string_view help = kForm,
                     absl::string_view details = "") const {
    // Show the complete text if it is one line.
    const std::string rules =
        by_line_ ? "" : DetailLine("rules", Quoted(text_));
    return absl::InvalidArgumentError(absl::StrCat(
        number == 0 ? "section " : "rule ", Quoted(item.text), " ", what, " (",
        Origin(item, number), ")", details, rules, DetailLine("help", help)));
  }

  // The rules of the preset that the text begins with; none if it does not.
  absl::StatusOr<std::vector<LayoutRule>> PresetRules() const {
    if (!BeginsWithPreset()) return std::vector<LayoutRule>();
    MTF_ASSIGN_OR_RETURN(const LayoutRules preset,
                         LayoutRules::Preset(items_[0].text));
    return preset.rules();
  }

  // The error of a section without items, [in ...] or [offload].
  absl::Status EmptySection(const TextItem& section, bool is_offload) const {
    return is_offload ? Error(section, 0, "names no variables",
                              "write \"optimizer\", \"parameters\" or names of "
                              "variables after it, or remove it")
                      : Error(section, 0, "has no rules",
                              "write its rules after it, or remove it");
  }

  // The error of a section that is not [offload] after a preset.
  absl::Status CombinedWithPreset(const TextItem& section) const {
    return Error(section, 0,
                 absl::StrCat("follows preset ", Quoted(items_[0].text),
                              ", which is a complete layout"),
                 "only a section [offload] may follow a preset; to change its "
                 "rules or add others, write them all out");
  }

  // The error of an item of [offload]; `what` has its own details.
  absl::Status ItemError(const TextItem& item, int number,
                         absl::string_view what) const {
    const size_t details = std::min(what.find('\n'), what.size());
    return absl::InvalidArgumentError(
        absl::StrCat("item ", Quoted(item.text), " ", what.substr(0, details),
                     " (", Origin(item, number), ")", what.substr(details)));
  }

 private:
  absl::string_view text_;
  absl::string_view origin_;
  bool by_line_;
  std::vector<TextItem> items_;
  int num_rules_ = 0;
};

// The patterns of the header "[in a, b]", whose text between "in" and the
// bracket is `patterns`.
absl::StatusOr<SectionHeader> ParseScopes(const RulesText& text,
                                          const TextItem& item,
                                          absl::string_view patterns) {
  constexpr absl::string_view kHelp =
      "write [in SCOPES] with the names of scopes, as in "
      "\"[in layer_*/attention, encoder]\"; \"*\" stands for any characters, "
      "\"**\" for any number of components";
  SectionHeader header{RuleSection::kScopes};
  std::string without_comments;
  for (absl::string_view line : absl::StrSplit(patterns, '\n')) {
    absl::StrAppend(&without_comments, line.substr(0, line.find('#')), " ");
  }
  for (absl::string_view pattern : absl::StrSplit(
           without_comments, absl::ByAnyChar(", ;\t\r"), absl::SkipEmpty())) {
    if (!IsScopePattern(pattern)) {
      return text.Error(item, 0,
                        absl::StrCat("has the pattern ", Quoted(pattern),
                                     ", which is not made of names of letters, "
                                     "digits, \"_\", \"-\" and \"*\" with "
                                     "single slashes between them"),
                        kHelp);
    }
    header.scopes.emplace_back(pattern);
  }
  if (!header.scopes.empty()) return header;
  return text.Error(item, 0, "names no scope", kHelp);
}

absl::StatusOr<SectionHeader> ParseSection(const RulesText& text,
                                           const TextItem& item) {
  // Join the words of the header with single blanks.
  std::string name;
  for (const TextItem& word : SplitItems(item.text.substr(1), false)) {
    absl::StrAppend(&name, name.empty() ? "" : " ", word.text);
  }
  if (item.text.back() == ']') name.pop_back();
  if (item.text.back() == ']' && (name == "in" || name.rfind("in ", 0) == 0)) {
    const size_t in = item.text.find("in");
    return ParseScopes(text, item,
                       item.text.substr(in + 2, item.text.size() - in - 3));
  }
  std::vector<std::string> names;
  for (RuleSection section : kSections) {
    names.push_back(section == RuleSection::kScopes
                        ? "in SCOPES"
                        : std::string(RuleSectionName(section)));
  }
  names.emplace_back(kBudgetSection.substr(1, kBudgetSection.size() - 2));
  for (const SectionHeader& header : FixedHeaders()) {
    if (item.text.back() == ']' && name == header.Name()) return header;
    if (header.keep_gathered || header.offload) names.push_back(header.Name());
  }
  if (absl::StrContains(name, kFormerKeepGathered)) {
    return text.Error(item, 0,
                      absl::StrCat("says ", Quoted(kFormerKeepGathered),
                                   ", which is now ", Quoted(kKeepGathered)),
                      absl::StrCat("write [parameters ", kKeepGathered, "]"));
  }
  const std::string known =
      absl::StrCat("the sections are [", absl::StrJoin(names, "], ["), "]");
  if (const size_t bracket = item.text.find(']');
      bracket < item.text.size() - 1) {
    return text.Error(
        item, 0, "continues after its \"]\"",
        absl::StrCat("write ", Quoted(item.text.substr(0, bracket + 1)),
                     ", a blank, and then the rules of the section"));
  }
  if (item.text.back() != ']') {
    return text.Error(item, 0, "does not end with \"]\"",
                      name == "in" ? "write the \"]\" after the last scope, as "
                                     "in \"[in layer_*/attention, encoder]\""
                                   : known);
  }
  const std::string nearest = NearestName(name, names);
  return text.Error(
      item, 0, "is unknown",
      nearest.empty() ? known
                      : absl::StrCat("did you mean [", nearest, "]? ", known));
}

absl::StatusOr<LayoutRule> ParseRule(const RulesText& text,
                                     const TextItem& item, int number) {
  const size_t colon = item.text.find(':');
  if (colon == absl::string_view::npos) {
    return text.Error(item, number, "names no axis");
  }
  if (item.text.find(':', colon + 1) != absl::string_view::npos) {
    return text.Error(item, number, "has more than one \":\"");
  }
  LayoutRule rule;
  rule.dimension = std::string(item.text.substr(0, colon));
  rule.origin = text.Origin(item, number);
  if (rule.dimension.empty()) {
    return text.Error(item, number, "names no dimension");
  }
  if (!IsLayoutName(rule.dimension)) {
    return text.Error(item, number,
                      "has a dimension name that is not made of letters, "
                      "digits, \"_\" and \"-\"");
  }
  const absl::string_view axes = item.text.substr(colon + 1);
  if (axes == kReplicated) return rule;
  for (absl::string_view axis : absl::StrSplit(axes, '+')) {
    if (axis == kFormerReplicated) {
      return text.Error(
          item, number,
          absl::StrCat("says ", Quoted(kFormerReplicated), ", which is now ",
                       Quoted(kReplicated)),
          absl::StrCat("write ",
                       Quoted(absl::StrCat(rule.dimension, ":", kReplicated))));
    }
    if (axis == kReplicated) {
      return text.Error(item, number,
                        "says that a dimension is replicated, and sharded",
                        absl::StrCat("\"", rule.dimension, ":", kReplicated,
                                     "\", or axes without it"));
    }
    if (axis.empty() && !axes.empty()) {
      return text.Error(item, number, "has no axis on one side of a \"+\"",
                        absl::StrCat(kForm, ", without blanks around \"+\""));
    }
    if (axis.empty()) {
      return text.Error(item, number, "names no axis",
                        absl::StrCat(kForm, ", without blanks around \":\""));
    }
    if (!IsLayoutName(axis)) {
      return text.Error(item, number,
                        "has an axis name that is not made of letters, "
                        "digits, \"_\" and \"-\"");
    }
    if (static_cast<int>(rule.axes.size()) == kMaxMeshAxes) {
      return text.Error(
          item, number,
          absl::StrCat("has more axes than any mesh: at most ", kMaxMeshAxes));
    }
    if (std::find(rule.axes.begin(), rule.axes.end(), axis) !=
        rule.axes.end()) {
      return text.Error(item, number,
                        absl::StrCat("names the axis ", Quoted(axis), " twice"),
                        "an axis shards a dimension once");
    }
    rule.axes.emplace_back(axis);
  }
  return rule;
}

// The error of `second`, which rules the dimension of `first` again.
absl::Status RuledTwice(const RulesText& text, const TextItem& item, int number,
                        const LayoutRule& first, const LayoutRule& second) {
  LayoutRule joined = first;
  for (const std::string& axis : second.axes) {
    const auto& axes = joined.axes;
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
      joined.axes.push_back(axis);
    }
  }
  const bool joins = !first.axes.empty() &&
                     joined.axes.size() > first.axes.size() &&
                     joined.axes.size() > second.axes.size();
  std::string details;
  for (const auto& [label, rule] :
       {std::pair<const char*, const LayoutRule*>{"first", &first},
        {"second", &second}}) {
    absl::StrAppend(&details,
                    DetailLine(label, absl::StrCat(rule->TextWithSection(),
                                                   "   (", rule->origin, ")")));
  }
  return text.Error(
      item, number,
      absl::StrCat("rules the dimension ", Quoted(second.dimension),
                   " again in the section [",
                   second.section == RuleSection::kScopes
                       ? second.SectionName()
                       : RuleSectionName(second.section),
                   "]"),
      joins
          ? absl::StrCat("keep one of the two, or shard over the axes of both "
                         "with ",
                         Quoted(joined.ToString()))
          : "keep one of the two",
      details);
}

}  // namespace

absl::string_view RuleSectionName(RuleSection section) {
  switch (section) {
    case RuleSection::kDefault:
      return "default";
    case RuleSection::kScopes:
      return "in";
    case RuleSection::kParameters:
      return "parameters";
    case RuleSection::kOptimizer:
      return "optimizer";
  }
  return "?";
}

std::string LayoutRule::ToString() const {
  return absl::StrCat(
      dimension, ":",
      axes.empty() ? std::string(kReplicated) : absl::StrJoin(axes, "+"));
}

std::string LayoutRule::TextWithSection() const {
  if (section == RuleSection::kDefault) return ToString();
  return absl::StrCat("[", SectionName(), "] ", ToString());
}

std::string LayoutRule::SectionName() const {
  return SectionHeader::Of(*this).Name();
}

absl::Status LayoutRules::ParseText(absl::string_view full_text,
                                    absl::string_view origin, bool by_line) {
  const RulesText text(full_text, origin, by_line);
  // The index in rules_ by section and dimension, of this text only: another
  // text may rule a dimension again.
  absl::flat_hash_map<
      std::tuple<RuleSection, std::vector<std::string>, std::string>, size_t>
      seen;
  SectionHeader header;
  // The header of a section [in ...] or [offload] without items so far, or
  // null.
  const TextItem* empty = nullptr;
  const auto check_not_empty = [&]() -> absl::Status {
    return empty == nullptr ? absl::OkStatus()
                            : text.EmptySection(*empty, header.offload);
  };
  int number = 0;
  const bool has_preset = text.BeginsWithPreset();
  MTF_ASSIGN_OR_RETURN(rules_, text.PresetRules());
  for (size_t i = has_preset ? 1 : 0; i < text.items().size();) {
    const TextItem& item = text.items()[i];
    if (RulesText::IsSection(item)) {
      MTF_RETURN_IF_ERROR(check_not_empty());
      if (has_preset && item.text != kOffloadSection) {
        return text.CombinedWithPreset(item);
      }
    }
    empty = nullptr;
    if (item.text == kBudgetSection) {
      MTF_ASSIGN_OR_RETURN(i, text.ParseBudget(i, budget_));
      continue;
    }
    ++i;
    if (RulesText::IsSection(item)) {
      MTF_ASSIGN_OR_RETURN(header, ParseSection(text, item));
      if (header.section == RuleSection::kScopes || header.offload) {
        empty = &item;
      }
      continue;
    }
    if (header.offload) {
      ++number;
      const absl::Status added =
          offload_.Add({std::string(item.text), text.Origin(item, number)});
      if (!added.ok()) return text.ItemError(item, number, added.message());
      continue;
    }
    MTF_ASSIGN_OR_RETURN(LayoutRule rule, ParseRule(text, item, ++number));
    rule.section = header.section;
    rule.scopes = header.scopes;
    rule.keep_gathered = header.keep_gathered;
    const auto [before, inserted] =
        seen.emplace(std::make_tuple(rule.section, rule.scopes, rule.dimension),
                     rules_.size());
    if (!inserted) {
      return RuledTwice(text, item, number, rules_[before->second], rule);
    }
    rules_.push_back(std::move(rule));
  }
  return check_not_empty();
}

absl::StatusOr<LayoutRules> LayoutRules::Parse(absl::string_view text,
                                               absl::string_view origin) {
  const bool by_line = text.find('\n') != absl::string_view::npos;
  LayoutRules rules;
  MTF_RETURN_IF_ERROR(rules.ParseText(text, origin, by_line));
  return rules;
}

absl::StatusOr<LayoutRules> LayoutRules::ReadFile(const std::string& path) {
  constexpr int64_t kMostBytes = 1 << 20;
  MTF_ASSIGN_OR_RETURN(const std::string text,
                       ReadTextFile(path, "layout file", kMostBytes));
  LayoutRules rules;
  MTF_RETURN_IF_ERROR(rules.ParseText(text, path, /*by_line=*/true));
  return rules;
}

std::string FormatRules(absl::Span<const LayoutRule> rules) {
  std::string text;
  std::string current = SectionHeader().Name();
  const auto append = [&](RuleSection section, bool keep_gathered) {
    for (const LayoutRule& rule : rules) {
      if (rule.section != section || rule.keep_gathered != keep_gathered) {
        continue;
      }
      absl::StrAppend(&text, text.empty() ? "" : ", ");
      std::string name = rule.SectionName();
      if (name != current) {
        absl::StrAppend(&text, "[", name, "] ");
        current = std::move(name);
      }
      absl::StrAppend(&text, rule.ToString());
    }
  };
  for (RuleSection section : kSections) {
    append(section, false);
    append(section, true);
  }
  return text;
}

std::string LayoutRules::ToString() const {
  std::string text = FormatRules(rules_);
  if (!offload_.empty()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", kOffloadSection, " ",
                    offload_.ToString());
  }
  if (!budget_.empty()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", kBudgetSection, " ",
                    budget_.ToString());
  }
  return text;
}

}  // namespace mtf
