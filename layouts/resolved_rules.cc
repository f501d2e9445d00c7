// SPDX-License-Identifier: Apache-2.0
//
// ResolvedRules: the rules that apply to a mesh and a program, and the errors
// and notices on the others.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "layouts/layout_rules.h"
#include "layouts/text_items.h"
#include "mtf/status.h"

namespace mtf {
namespace {

// A name with each digit replaced by 0. "b1" and "b2" are different names,
// never misspellings of each other.
std::string WithoutDigits(absl::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c >= '0' && c <= '9') c = '0';
  }
  return text;
}

// The candidate of which `word` is probably a misspelling, or "". Names of
// fewer than three letters are never taken for misspellings, because one edit
// changes any one-letter name into any other.
std::string Misspelled(absl::string_view word,
                       const std::vector<std::string>& candidates) {
  std::vector<std::string> plausible;
  for (const std::string& candidate : candidates) {
    if (std::min(word.size(), candidate.size()) >= 3 &&
        WithoutDigits(word) != WithoutDigits(candidate)) {
      plausible.push_back(candidate);
    }
  }
  return NearestName(word, plausible);
}

std::string Named(const LayoutRule& rule) {
  return absl::StrCat("rule \"", rule.ToString(), "\" (", rule.origin, ")");
}

// Matches rules with the axes of the mesh and the dimensions of the program.
class RuleResolver {
 public:
  RuleResolver(const LayoutRules& rules, const Mesh& mesh,
               const std::vector<std::string>& dimensions,
               const absl::flat_hash_set<std::string>* variable_dimensions)
      : mesh_(mesh),
        dimensions_(dimensions),
        existing_(dimensions.begin(), dimensions.end()),
        variable_dimensions_(variable_dimensions) {
    for (const LayoutRule& rule : rules.rules()) {
      ruled_.emplace(rule.section, rule.dimension);
    }
    for (const MeshAxis& axis : mesh.axes()) axis_names_.push_back(axis.name);
  }

  bool Exists(const LayoutRule& rule) const {
    return existing_.contains(rule.dimension);
  }

  // Returns an error if the dimension or an axis of `rule` is misspelt.
  absl::Status CheckSpelling(const LayoutRule& rule) const {
    if (!Exists(rule)) {
      // A dimension that has a rule in this section is not a candidate.
      std::vector<std::string> candidates;
      for (const std::string& dimension : dimensions_) {
        if (!ruled_.contains({rule.section, dimension})) {
          candidates.push_back(dimension);
        }
      }
      const std::string nearest = Misspelled(rule.dimension, candidates);
      if (!nearest.empty()) {
        return Typo(rule, "no tensor has a dimension", rule.dimension, nearest);
      }
    }
    for (const std::string& axis : rule.axes) {
      if (mesh_.Find(axis) >= 0) continue;
      const std::string nearest = Misspelled(axis, axis_names_);
      if (!nearest.empty()) {
        return Typo(rule, absl::StrCat(TheMesh(), " has no axis"), axis,
                    nearest);
      }
    }
    return absl::OkStatus();
  }

  // The axes of `rule` that the mesh has. Stores the names of the others in
  // `missing`.
  AxisList AxesOn(const LayoutRule& rule,
                  std::vector<std::string>* missing) const {
    AxisList axes;
    for (const std::string& name : rule.axes) {
      const int axis = mesh_.Find(name);
      if (axis < 0) {
        missing->push_back(name);
      } else {
        axes.push_back(axis);
      }
    }
    return axes;
  }

  // The notice on a rule that does not apply, or not with all of its axes; ""
  // if it applies completely.
  std::string Notice(const LayoutRule& rule,
                     const std::vector<std::string>& missing) const {
    if (!Exists(rule)) {
      return absl::StrCat(Named(rule),
                          " has no effect: no tensor has a dimension \"",
                          rule.dimension, "\"");
    }
    if (rule.section != RuleSection::kDefault &&
        variable_dimensions_ != nullptr &&
        !variable_dimensions_->contains(rule.dimension)) {
      return absl::StrCat(Named(rule), " has no effect: no variable has a ",
                          "dimension \"", rule.dimension, "\", and [",
                          RuleSectionName(rule.section),
                          "] has the rules of variables");
    }
    if (missing.empty()) return "";
    std::string names;
    for (const std::string& name : missing) {
      absl::StrAppend(&names, names.empty() ? "\"" : ", \"", name, "\"");
    }
    if (missing.size() == rule.axes.size()) {
      return absl::StrCat(Named(rule), " has no effect: ", TheMesh(),
                          " has no axis ", names);
    }
    return absl::StrCat(missing.size() == 1 ? "axis " : "axes ", names, " of ",
                        Named(rule), missing.size() == 1 ? " has" : " have",
                        " no effect: ", TheMesh(), " lacks ",
                        missing.size() == 1 ? "it" : "them");
  }

 private:
  std::string TheMesh() const {
    return absl::StrCat("mesh \"", mesh_.ToString(), "\"");
  }

  absl::Status Typo(const LayoutRule& rule, absl::string_view lack,
                    absl::string_view word, absl::string_view nearest) const {
    return absl::InvalidArgumentError(absl::StrCat(
        lack, " \"", word, "\"; did you mean \"", nearest, "\"?",
        DetailLine("rule", absl::StrCat("\"", rule.ToString(), "\" in [",
                                        RuleSectionName(rule.section), "], ",
                                        rule.origin)),
        DetailLine("mesh", Quoted(mesh_.ToString())),
        DetailLine("help", absl::StrCat("write \"", nearest,
                                        "\", or remove the rule if another "
                                        "name is meant"))));
  }

  const Mesh& mesh_;
  const std::vector<std::string>& dimensions_;
  absl::flat_hash_set<std::string> existing_;
  const absl::flat_hash_set<std::string>* const variable_dimensions_;
  absl::flat_hash_set<std::pair<RuleSection, std::string>> ruled_;
  std::vector<std::string> axis_names_;
};

}  // namespace

absl::StatusOr<ResolvedRules> ResolvedRules::Resolve(
    const LayoutRules& rules, const Mesh& mesh,
    const std::vector<std::string>& dimensions, bool strict,
    const absl::flat_hash_set<std::string>* variable_dimensions) {
  const RuleResolver resolver(rules, mesh, dimensions, variable_dimensions);
  ResolvedRules resolved;
  resolved.rules_ = rules.rules();
  for (int i = 0; i < static_cast<int>(resolved.rules_.size()); ++i) {
    const LayoutRule& rule = resolved.rules_[i];
    MTF_RETURN_IF_ERROR(resolver.CheckSpelling(rule));
    std::vector<std::string> missing;
    const AxisList axes = resolver.AxesOn(rule, &missing);
    std::string notice = resolver.Notice(rule, missing);
    if (!notice.empty()) {
      if (strict) {
        return absl::InvalidArgumentError(
            absl::StrCat(notice, DetailLine("mesh", Quoted(mesh.ToString())),
                         DetailLine("help",
                                    "remove the rule, or allow rules without "
                                    "effect by leaving out --strict_layout")));
      }
      resolved.notices_.push_back(std::move(notice));
    }
    // A rule without effect is ignored: if it is in a named section, the rules
    // of the default section apply to its dimension.
    const bool applies = !axes.empty() || rule.axes.empty();
    if (!resolver.Exists(rule) || !applies) continue;
    Entry& entry = resolved.entries_[rule.dimension];
    const int section = static_cast<int>(rule.section);
    entry.rule[section] = i;
    for (int axis : axes) {
      // Drop axes of size 1, so that equal layouts compare equal.
      if (mesh.axis_size(axis) > 1) entry.axes[section].push_back(axis);
    }
  }
  return resolved;
}

const AxisList& ResolvedRules::AxesOf(RuleSection section,
                                      absl::string_view dimension) const {
  static const AxisList* const none = new AxisList();
  const auto found = entries_.find(dimension);
  if (found == entries_.end()) return *none;
  const Entry& entry = found->second;
  const int scoped = static_cast<int>(section);
  return entry.rule[scoped] >= 0
             ? entry.axes[scoped]
             : entry.axes[static_cast<int>(RuleSection::kDefault)];
}

const LayoutRule* ResolvedRules::RuleOf(RuleSection section,
                                        absl::string_view dimension) const {
  const auto found = entries_.find(dimension);
  if (found == entries_.end()) return nullptr;
  int rule = found->second.rule[static_cast<int>(section)];
  if (rule < 0) {
    rule = found->second.rule[static_cast<int>(RuleSection::kDefault)];
  }
  return rule < 0 ? nullptr : &rules_[rule];
}

void ResolvedRules::CopyRules(absl::string_view second,
                              absl::string_view first) {
  const auto found = entries_.find(first);
  if (found == entries_.end()) return;
  const Entry entry = found->second;  // a copy: the insertion may rehash
  entries_[second] = entry;
}

AxisSet ResolvedRules::AllAxesOf(absl::string_view dimension) const {
  AxisSet set = 0;
  const auto found = entries_.find(dimension);
  if (found == entries_.end()) return set;
  for (const AxisList& axes : found->second.axes) set |= SetOf(axes);
  return set;
}

}  // namespace mtf
