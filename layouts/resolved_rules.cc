// SPDX-License-Identifier: Apache-2.0
//
// ResolvedRules: the rules that apply to a mesh and a program, and the errors
// and notices on the others.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "layouts/layout_rules.h"
#include "layouts/text_items.h"
#include "mtf/scope_pattern.h"
#include "mtf/status.h"

namespace mtf {
namespace {

bool MatchesAny(const std::vector<std::string>& patterns,
                absl::string_view scope) {
  return std::any_of(
      patterns.begin(), patterns.end(),
      [&](const std::string& pattern) { return ScopeMatches(pattern, scope); });
}

std::string Named(const LayoutRule& rule) {
  return absl::StrCat("rule \"", rule.ToString(), "\" (", rule.origin, ")");
}

// Matches rules with the axes of the mesh and the dimensions of the program.
class RuleResolver {
 public:
  RuleResolver(const LayoutRules& rules, const Mesh& mesh,
               const std::vector<std::string>& dimensions,
               const absl::flat_hash_set<std::string>* variable_dimensions,
               absl::Span<const ScopeDimensions> scopes)
      : mesh_(mesh),
        dimensions_(dimensions),
        existing_(dimensions.begin(), dimensions.end()),
        variable_dimensions_(variable_dimensions),
        scopes_(scopes) {
    for (const LayoutRule& rule : rules.rules()) {
      ruled_.emplace(rule.SectionName(), rule.dimension);
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
        if (!ruled_.contains({rule.SectionName(), dimension})) {
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

  // The notices on the patterns of the section of `rule` that match no scope:
  // once for each section.
  std::vector<std::string> ScopeNotices(const LayoutRule& rule) {
    if (rule.section != RuleSection::kScopes ||
        !sections_seen_.insert(rule.SectionName()).second) {
      return {};
    }
    return PatternNotices(rule);
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
    if (rule.section == RuleSection::kScopes && !ExistsInScopes(rule)) {
      return absl::StrCat(Named(rule), " has no effect: no tensor in [",
                          rule.SectionName(), "] has a dimension \"",
                          rule.dimension, "\"");
    }
    if ((rule.section == RuleSection::kParameters ||
         rule.section == RuleSection::kOptimizer) &&
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
  bool MatchesAScope(const std::string& pattern) const {
    return std::any_of(scopes_.begin(), scopes_.end(),
                       [&](const ScopeDimensions& scope) {
                         return ScopeMatches(pattern, scope.name);
                       });
  }

  // On the patterns of the section of `rule` that match no scope. One that
  // begins with "**" is for any model, and only reported if all match nothing.
  std::vector<std::string> PatternNotices(const LayoutRule& rule) const {
    std::vector<std::string> unmatched;
    bool any = false;
    for (const std::string& pattern : rule.scopes) {
      const bool matches = MatchesAScope(pattern);
      any = any || matches;
      if (!matches) unmatched.push_back(pattern);
    }
    std::vector<std::string> notices;
    for (const std::string& pattern : unmatched) {
      if (any && absl::StartsWith(pattern, "**")) continue;
      const std::string nearest = NearestScope(pattern);
      notices.push_back(absl::StrCat(
          "section [", rule.SectionName(), "] (", rule.origin,
          "): no scope matches \"", pattern, "\"",
          nearest.empty()
              ? ""
              : absl::StrCat("; the nearest scope is \"", nearest, "\"")));
    }
    return notices;
  }

  // The scope with the fewest edits to `pattern`, or "". Numbers and "*" are
  // not compared.
  std::string NearestScope(const std::string& pattern) const {
    // "**/" stands for the scopes around one.
    absl::string_view wanted = pattern;
    const bool anywhere = absl::ConsumePrefix(&wanted, "**/");
    const auto compared = [](absl::string_view text) {
      std::string kept;
      for (char c : text) {
        if (c != '*' && !absl::ascii_isdigit(static_cast<unsigned char>(c))) {
          kept += c;
        }
      }
      return kept;
    };
    std::string nearest;
    int least = std::numeric_limits<int>::max();
    for (const ScopeDimensions& scope : scopes_) {
      // The scope, and those that contain it.
      for (size_t end = scope.name.find('/'); !scope.name.empty();
           end = scope.name.find('/', end + 1)) {
        const absl::string_view name =
            absl::string_view(scope.name).substr(0, end);
        const absl::string_view last =
            anywhere ? name.substr(name.rfind('/') + 1) : name;
        const int edits = EditDistance(compared(wanted), compared(last));
        if (edits < least) {
          least = edits;
          nearest = std::string(name);
        }
        if (end == std::string::npos) break;
      }
    }
    return nearest;
  }

  // Whether something with the dimension of `rule` is computed in its scopes.
  bool ExistsInScopes(const LayoutRule& rule) const {
    return std::any_of(scopes_.begin(), scopes_.end(),
                       [&](const ScopeDimensions& scope) {
                         return scope.dimensions.contains(rule.dimension) &&
                                MatchesAny(rule.scopes, scope.name);
                       });
  }

  std::string TheMesh() const {
    return absl::StrCat("mesh \"", mesh_.ToString(), "\"");
  }

  absl::Status Typo(const LayoutRule& rule, absl::string_view lack,
                    absl::string_view word, absl::string_view nearest) const {
    return absl::InvalidArgumentError(absl::StrCat(
        lack, " \"", word, "\"; did you mean \"", nearest, "\"?",
        DetailLine("rule",
                   absl::StrCat("\"", rule.ToString(), "\" in [",
                                rule.SectionName(), "], ", rule.origin)),
        DetailLine("mesh", Quoted(mesh_.ToString())),
        DetailLine("help", absl::StrCat("write \"", nearest,
                                        "\", or remove the rule if another "
                                        "name is meant"))));
  }

  const Mesh& mesh_;
  const std::vector<std::string>& dimensions_;
  absl::flat_hash_set<std::string> existing_;
  const absl::flat_hash_set<std::string>* const variable_dimensions_;
  const absl::Span<const ScopeDimensions> scopes_;
  absl::flat_hash_set<std::pair<std::string, std::string>> ruled_;
  std::vector<std::string> axis_names_;
  absl::flat_hash_set<std::string> sections_seen_;
};

}  // namespace

absl::StatusOr<ResolvedRules> ResolvedRules::Resolve(
    const LayoutRules& rules, const Mesh& mesh,
    const std::vector<std::string>& dimensions, bool strict,
    const absl::flat_hash_set<std::string>* variable_dimensions,
    absl::Span<const ScopeDimensions> scopes) {
  RuleResolver resolver(rules, mesh, dimensions, variable_dimensions, scopes);
  ResolvedRules resolved;
  resolved.rules_ = rules.rules();
  std::vector<Ruled> in_scopes;
  for (int i = 0; i < static_cast<int>(resolved.rules_.size()); ++i) {
    const LayoutRule& rule = resolved.rules_[i];
    MTF_RETURN_IF_ERROR(resolver.CheckSpelling(rule));
    std::vector<std::string> missing;
    const AxisList axes = resolver.AxesOn(rule, &missing);
    std::vector<std::string> notices = resolver.ScopeNotices(rule);
    resolved.scope_notices_.insert(resolved.scope_notices_.end(),
                                   notices.begin(), notices.end());
    if (std::string notice = resolver.Notice(rule, missing); !notice.empty()) {
      notices.push_back(std::move(notice));
    }
    for (std::string& notice : notices) {
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
    Ruled ruled{{}, i};
    for (int axis : axes) {
      // Drop axes of size 1, so that equal layouts compare equal.
      if (mesh.axis_size(axis) > 1) ruled.axes.push_back(axis);
    }
    if (rule.section == RuleSection::kScopes) {
      in_scopes.push_back(std::move(ruled));
    } else {
      resolved.sections_[static_cast<int>(rule.section)][rule.dimension] =
          std::move(ruled);
    }
  }
  if (!in_scopes.empty()) resolved.SetModules(scopes, in_scopes);
  return resolved;
}

void ResolvedRules::SetModules(absl::Span<const ScopeDimensions> scopes,
                               const std::vector<Ruled>& applied) {
  // By the rules that apply to a scope: the number of its module.
  absl::flat_hash_map<std::vector<int>, int> modules = {{{}, 0}};
  module_of_scope_.clear();
  for (const ScopeDimensions& scope : scopes) {
    std::vector<int> matching;
    for (size_t i = 0; i < applied.size(); ++i) {
      // The rules of one section match the same scopes.
      const LayoutRule& rule = rules_[applied[i].rule];
      const bool again = i > 0 && rules_[applied[i - 1].rule].InSectionOf(rule);
      const bool matches =
          again
              ? !matching.empty() && matching.back() == static_cast<int>(i) - 1
              : MatchesAny(rule.scopes, scope.name);
      if (matches) matching.push_back(static_cast<int>(i));
    }
    const auto [module, is_new] =
        modules.try_emplace(matching, static_cast<int>(modules.size()));
    module_of_scope_.push_back(module->second);
    if (!is_new) continue;
    Dimensions& ruled = modules_.emplace_back();
    for (int i : matching) {
      ruled[rules_[applied[i].rule].dimension] = applied[i];
    }
  }
  // A rule that no scope matches shards nothing.
  for (const auto& [matching, module] : modules) {
    for (int i : matching) {
      axes_in_scopes_[rules_[applied[i].rule].dimension] |=
          SetOf(applied[i].axes);
    }
  }
}

const ResolvedRules::Ruled* ResolvedRules::Find(RuleSection section,
                                                absl::string_view dimension,
                                                int module) const {
  const auto find = [&](const Dimensions& dimensions) {
    const auto found = dimensions.find(dimension);
    return found == dimensions.end() ? nullptr : &found->second;
  };
  const Ruled* ruled = nullptr;
  if (section != RuleSection::kDefault) {
    ruled = find(sections_[static_cast<int>(section)]);
  }
  if (ruled == nullptr && module > 0) ruled = find(modules_[module - 1]);
  if (ruled == nullptr) {
    ruled = find(sections_[static_cast<int>(RuleSection::kDefault)]);
  }
  return ruled;
}

const AxisList& ResolvedRules::AxesOf(RuleSection section,
                                      absl::string_view dimension,
                                      int module) const {
  static const AxisList* const none = new AxisList();
  const Ruled* ruled = Find(section, dimension, module);
  return ruled == nullptr ? *none : ruled->axes;
}

const LayoutRule* ResolvedRules::RuleOf(RuleSection section,
                                        absl::string_view dimension,
                                        int module) const {
  const Ruled* ruled = Find(section, dimension, module);
  return ruled == nullptr ? nullptr : &rules_[ruled->rule];
}

AxisSet ResolvedRules::AllAxesOf(absl::string_view dimension) const {
  AxisSet set = 0;
  for (const Dimensions& section : sections_) {
    const auto found = section.find(dimension);
    if (found != section.end()) set |= SetOf(found->second.axes);
  }
  const auto in_scopes = axes_in_scopes_.find(dimension);
  return in_scopes == axes_in_scopes_.end() ? set : set | in_scopes->second;
}

}  // namespace mtf
