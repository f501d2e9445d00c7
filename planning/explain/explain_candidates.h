// SPDX-License-Identifier: Apache-2.0
//
// The rule changes that an explanation tries.
#ifndef PLANNING_EXPLAIN_EXPLAIN_CANDIDATES_H_
#define PLANNING_EXPLAIN_EXPLAIN_CANDIDATES_H_

#include <string>
#include <vector>

#include "layouts/mesh.h"
#include "planning/explain/explain_parts.h"

namespace mtf::internal {

// A rule change to try.
struct RuleCandidate {
  std::string edit;          // "drop d_ff:model"
  Rules rules;               // all rules after the change
  std::vector<int> touched;  // indices of the present rules that it changes
};

// Drops the rules at `indices`, which is sorted.
RuleCandidate DropRules(const Rules& rules, std::vector<int> indices);

// Replaces the rules at `indices` by rules that replicate the same dimensions.
// Unlike dropping a rule, this leaves no room for another rule to apply in its
// stead: that of another section.
RuleCandidate ReplicateDimensions(const Rules& rules, std::vector<int> indices);

// All changes of a single used rule: drop it, drop all rules that shard its
// dimension, remove one of its axes, or shard over another axis.
std::vector<RuleCandidate> RuleCandidates(
    const Rules& rules, const std::vector<ExplainedRule>& uses,
    const Mesh& mesh);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_CANDIDATES_H_
