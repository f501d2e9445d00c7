// SPDX-License-Identifier: Apache-2.0
#include "planning/explain/explain_candidates.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mtf::internal {

RuleCandidate DropRules(const Rules& rules, std::vector<int> indices) {
  RuleCandidate candidate;
  std::vector<std::string> dropped;
  for (int i = 0; i < static_cast<int>(rules.size()); ++i) {
    if (std::binary_search(indices.begin(), indices.end(), i)) {
      dropped.push_back(rules[i].TextWithSection());
    } else {
      candidate.rules.push_back(rules[i]);
    }
  }
  candidate.edit = absl::StrCat("drop ", absl::StrJoin(dropped, ", "));
  candidate.touched = std::move(indices);
  return candidate;
}

RuleCandidate ReplicateDimensions(const Rules& rules,
                                  std::vector<int> indices) {
  RuleCandidate candidate{"", rules, std::move(indices)};
  std::vector<std::string> edits;
  for (int i : candidate.touched) {
    candidate.rules[i].axes = {std::string(kReplicated)};
    edits.push_back(absl::StrCat(candidate.rules[i].TextWithSection(),
                                 " instead of ", rules[i].ToString()));
  }
  candidate.edit = absl::StrJoin(edits, ", ");
  return candidate;
}

std::vector<RuleCandidate> RuleCandidates(
    const Rules& rules, const std::vector<ExplainedRule>& uses,
    const Mesh& mesh) {
  std::vector<int> used;
  for (int i = 0; i < static_cast<int>(rules.size()); ++i) {
    if (uses[i].use == RuleUse::kUsed) used.push_back(i);
  }
  std::vector<RuleCandidate> candidates;
  for (int i : used) candidates.push_back(DropRules(rules, {i}));
  std::set<std::vector<int>> seen;
  for (int i : used) {
    // Includes unused rules of other sections with the same axes: they would
    // apply once the used rule is gone.
    std::vector<int> same;
    for (int j = 0; j < static_cast<int>(rules.size()); ++j) {
      if (rules[j].dimension == rules[i].dimension &&
          rules[j].section != RuleSection::kScopes &&
          ShardsOnMesh(rules[j], mesh)) {
        same.push_back(j);
      }
    }
    if (same.size() >= 2 && seen.insert(same).second) {
      candidates.push_back(DropRules(rules, std::move(same)));
    }
  }
  const auto with_axes = [&](int i, std::vector<std::string> axes) {
    RuleCandidate candidate{"", rules, {i}};
    candidate.rules[i].axes = std::move(axes);
    candidate.edit = absl::StrCat(candidate.rules[i].TextWithSection(),
                                  " instead of ", rules[i].ToString());
    candidates.push_back(std::move(candidate));
  };
  for (int i : used) {
    const std::vector<std::string>& axes = rules[i].axes;
    for (size_t a = 0; axes.size() > 1 && a < axes.size(); ++a) {
      std::vector<std::string> fewer = axes;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(a));
      with_axes(i, std::move(fewer));
    }
    for (const MeshAxis& axis : mesh.axes()) {
      if (axis.size > 1 &&
          std::find(axes.begin(), axes.end(), axis.name) == axes.end()) {
        with_axes(i, {axis.name});
      }
    }
  }
  return candidates;
}

}  // namespace mtf::internal
