// SPDX-License-Identifier: Apache-2.0
//
// CheckBudgetNames: budget lines whose axes or scopes do not exist.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/scope_pattern.h"
#include "mtf/status.h"
#include "planning/cost/check_budget.h"

namespace mtf {
namespace {

// The candidate that `word` is probably a misspelling of, or "". Names of less
// than three letters are never corrected.
std::string NearestCandidate(absl::string_view word,
                             const std::vector<std::string>& candidates) {
  std::vector<std::string> plausible;
  for (const std::string& candidate : candidates) {
    if (std::min(word.size(), candidate.size()) >= 3) {
      plausible.push_back(candidate);
    }
  }
  return NearestName(word, plausible);
}

// A name in a budget line that does not exist.
struct MissingName {
  std::string what;     // "mesh \"data:2\" has no axis \"modle\""
  std::string nearest;  // "model", or ""
};

// The names of operations and variables of a graph.
std::vector<absl::string_view> NamesOf(const Graph& graph) {
  std::vector<absl::string_view> names;
  for (const auto& operation : graph.operations()) {
    names.push_back(operation->name());
    if (operation->decomposition() == nullptr) continue;
    for (const auto& inner : operation->decomposition()->operations()) {
      names.push_back(inner->name());
    }
  }
  for (const VariableInfo& variable : graph.variables()) {
    names.push_back(variable.name);
  }
  return names;
}

// `what` is empty if an operation is in `scope`.
MissingName FindMissingScope(const std::string& scope,
                             const std::vector<absl::string_view>& names) {
  for (absl::string_view name : names) {
    if (ScopeMatches(scope, name)) return {};
  }
  MissingName missing;
  missing.what = absl::StrCat("no operation is in ", Quoted(scope));
  // The first component that matches no name may be misspelled. Candidates are
  // the components of names at the same position.
  const std::vector<std::string> components = absl::StrSplit(scope, '/');
  for (size_t i = 0; i < components.size(); ++i) {
    const auto first = components.begin();
    const std::string prefix = absl::StrJoin(first, first + i, "/");
    const std::string extended = absl::StrJoin(first, first + i + 1, "/");
    bool found = false;
    std::set<std::string> candidates;
    for (absl::string_view name : names) {
      found = found || ScopeMatches(extended, name);
      if (!ScopeMatches(prefix, name)) continue;
      const std::vector<absl::string_view> name_components =
          absl::StrSplit(name, '/');
      if (name_components.size() <= i) continue;
      candidates.emplace(name_components[i]);
      candidates.insert(PatternOfName(name_components[i]));
    }
    if (found) continue;
    // A layer that this model lacks is not a misspelling: one budget serves
    // models of many depths.
    const std::string pattern = PatternOfName(components[i]);
    if (pattern != components[i] && candidates.count(pattern) > 0) {
      return missing;
    }
    const std::string nearest =
        NearestCandidate(components[i], {candidates.begin(), candidates.end()});
    if (nearest.empty()) return missing;
    std::vector<std::string> corrected = components;
    corrected[i] = nearest;
    missing.nearest = absl::StrJoin(corrected, "/");
    return missing;
  }
  return missing;
}

MissingName FindMissingAxes(const std::vector<std::string>& axes,
                            const Mesh& mesh) {
  std::vector<std::string> known, absent;
  for (const MeshAxis& axis : mesh.axes()) known.push_back(axis.name);
  MissingName missing;
  for (const std::string& axis : axes) {
    if (mesh.Find(axis) >= 0) continue;
    absent.push_back(Quoted(axis));
    if (missing.nearest.empty()) {
      missing.nearest = NearestCandidate(axis, known);
    }
  }
  // A line over several axes applies to those that exist.
  if (absent.size() < axes.size() && missing.nearest.empty()) return {};
  if (absent.empty()) return {};
  missing.what = absl::StrCat("mesh ", Quoted(mesh.ToString()), " has no axis ",
                              absl::StrJoin(absent, ", "));
  return missing;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckBudgetNames(const Budget& budget,
                                                          const Mesh& mesh,
                                                          const Graph& graph,
                                                          bool strict) {
  std::vector<std::string> notices;
  if (budget.empty()) return notices;
  const std::vector<absl::string_view> names = NamesOf(graph);
  for (const BudgetLine& line : budget.lines()) {
    const std::string named =
        absl::StrCat("budget line ", Quoted(line.text), " (", line.origin, ")");
    for (const MissingName& missing : {FindMissingAxes(line.axes, mesh),
                                       FindMissingScope(line.scope, names)}) {
      if (missing.what.empty()) continue;
      if (!missing.nearest.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            missing.what, "; did you mean \"", missing.nearest, "\"?",
            DetailLine("budget",
                       absl::StrCat(Quoted(line.text), ", ", line.origin)),
            DetailLine("mesh", Quoted(mesh.ToString())),
            DetailLine("help",
                       absl::StrCat("write \"", missing.nearest,
                                    "\", or remove the line if another name "
                                    "is meant"))));
      }
      std::string notice =
          absl::StrCat(named, " has no effect: ", missing.what);
      if (strict) {
        return absl::InvalidArgumentError(absl::StrCat(
            notice, DetailLine("mesh", Quoted(mesh.ToString())),
            DetailLine("help",
                       "remove the line, or allow lines without effect by "
                       "leaving out --strict_layout")));
      }
      notices.push_back(std::move(notice));
    }
  }
  return notices;
}

absl::StatusOr<LayoutBinding> BindLayoutAndBudget(const Graph& graph,
                                                  const Mesh& mesh,
                                                  const LayoutRules& rules,
                                                  bool strict) {
  MTF_ASSIGN_OR_RETURN(LayoutBinding binding,
                       BindLayout(graph, mesh, rules, strict));
  MTF_ASSIGN_OR_RETURN(const std::vector<std::string> notices,
                       CheckBudgetNames(rules.budget(), mesh, graph, strict));
  for (const std::string& notice : notices) binding.rules.AddNotice(notice);
  return binding;
}

}  // namespace mtf
