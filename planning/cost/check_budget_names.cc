// SPDX-License-Identifier: Apache-2.0
//
// CheckBudgetNames: lines of a budget that can find nothing.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "layouts/text_items.h"
#include "mtf/status.h"
#include "planning/cost/check_budget.h"

namespace mtf {
namespace {

// The candidate that `word` may be a misspelling of, or "". Names below three
// letters are taken at their word.
std::string Misspelled(absl::string_view word,
                       const std::vector<std::string>& candidates) {
  std::vector<std::string> plausible;
  for (const std::string& candidate : candidates) {
    if (std::min(word.size(), candidate.size()) >= 3) {
      plausible.push_back(candidate);
    }
  }
  return NearestName(word, plausible);
}

// "layer_12" as a pattern that layers share, "layer_*"; other names as they
// are.
std::string Pattern(absl::string_view component) {
  const size_t last = component.find_last_not_of("0123456789");
  if (last == absl::string_view::npos || last + 1 == component.size()) {
    return std::string(component);
  }
  return absl::StrCat(component.substr(0, last + 1), "*");
}

// What a line names that does not exist, and what it may mean.
struct Missing {
  std::string what;     // "mesh \"data:2\" has no axis \"modle\""
  std::string nearest;  // "model", or ""
};

// The names of operations and variables of a graph.
std::vector<absl::string_view> NamesOf(const Graph& graph) {
  std::vector<absl::string_view> names;
  for (const auto& operation : graph.operations()) {
    names.push_back(operation->name());
  }
  for (const VariableInfo& variable : graph.variables()) {
    names.push_back(variable.name);
  }
  return names;
}

// Nothing missing leaves `what` empty.
Missing FindMissingScope(const std::string& scope,
                         const std::vector<absl::string_view>& names) {
  for (absl::string_view name : names) {
    if (IsInScope(name, scope)) return {};
  }
  Missing missing;
  missing.what = absl::StrCat("no operation is in ", Quoted(scope));
  // The first component that nothing matches may be misspelt; what stands in
  // its place otherwise are candidates.
  const std::vector<std::string> components = absl::StrSplit(scope, '/');
  for (size_t i = 0; i < components.size(); ++i) {
    const auto first = components.begin();
    const std::string before = absl::StrJoin(first, first + i, "/");
    const std::string with = absl::StrJoin(first, first + i + 1, "/");
    bool found = false;
    std::set<std::string> candidates;
    for (absl::string_view name : names) {
      found = found || IsInScope(name, with);
      if (!IsInScope(name, before)) continue;
      const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
      if (parts.size() <= i) continue;
      candidates.emplace(parts[i]);
      candidates.insert(Pattern(parts[i]));
    }
    if (found) continue;
    // A layer that this model is too small for: one budget serves many models.
    const std::string pattern = Pattern(components[i]);
    if (pattern != components[i] && candidates.count(pattern) > 0) {
      return missing;
    }
    const std::string nearest =
        Misspelled(components[i], {candidates.begin(), candidates.end()});
    if (nearest.empty()) return missing;
    std::vector<std::string> corrected = components;
    corrected[i] = nearest;
    missing.nearest = absl::StrJoin(corrected, "/");
    return missing;
  }
  return missing;
}

Missing FindMissingAxes(const std::vector<std::string>& axes,
                        const Mesh& mesh) {
  std::vector<std::string> known, absent;
  for (const MeshAxis& axis : mesh.axes()) known.push_back(axis.name);
  Missing missing;
  for (const std::string& axis : axes) {
    if (mesh.Find(axis) >= 0) continue;
    absent.push_back(Quoted(axis));
    if (missing.nearest.empty()) missing.nearest = Misspelled(axis, known);
  }
  // A line over several axes holds for those that exist.
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
    for (const Missing& missing : {FindMissingAxes(line.axes, mesh),
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
