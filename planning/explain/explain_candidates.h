// SPDX-License-Identifier: Apache-2.0
//
// The changes of a layout that an explanation tries.
#ifndef PLANNING_EXPLAIN_EXPLAIN_CANDIDATES_H_
#define PLANNING_EXPLAIN_EXPLAIN_CANDIDATES_H_

#include <string>
#include <vector>

#include "layouts/mesh.h"
#include "planning/explain/explain_parts.h"

namespace mtf::internal {

// The rules of a layout as --layout takes them, section by section.
std::string RulesText(const Rules& rules);

// A change to try: the rules it leaves, and which of the present ones it
// touches.
struct RuleCandidate {
  std::string edit;
  Rules rules;
  std::vector<int> touched;
};

// Without the rules in `places`, which is in order.
RuleCandidate DropRules(const Rules& rules, std::vector<int> places);

// With dimensions whole that the rules in `places` cut. Where a rule is dropped
// another may take over, that of a first name or of another section; so none
// does.
RuleCandidate ReplicateDimensions(const Rules& rules, std::vector<int> places);

// Every change of one rule that is used: without it, without all rules that cut
// its dimension, over fewer axes, over another axis.
std::vector<RuleCandidate> RuleCandidates(
    const Rules& rules, const std::vector<ExplainedRule>& uses,
    const Mesh& mesh);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_CANDIDATES_H_
