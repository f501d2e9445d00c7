// SPDX-License-Identifier: Apache-2.0
//
// The parts of ExplainText that stand in sources of their own.
#ifndef PLANNING_EXPLAIN_EXPLAIN_TEXT_H_
#define PLANNING_EXPLAIN_EXPLAIN_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "planning/explain/explain.h"

namespace mtf::internal {

// What becomes of attention, or "" on a machine that does not fuse it.
std::string AttentionText(const Explanation& explanation, int width);

// What fills the memory of a rank.
std::string MemoryText(const Explanation& explanation, int width);

// The rules, what each saves, padding, and changes of rules.
std::string RulesAndChangesText(const Explanation& explanation, int width);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_TEXT_H_
