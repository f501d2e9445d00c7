// SPDX-License-Identifier: Apache-2.0
//
// The sections of ExplainText that are written by other source files.
#ifndef PLANNING_EXPLAIN_EXPLAIN_TEXT_H_
#define PLANNING_EXPLAIN_EXPLAIN_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "planning/explain/explain.h"

namespace mtf::internal {

// Which attentions are fused, and why others are not; "" on a machine that does
// not fuse attention.
std::string AttentionText(const Explanation& explanation, int width);

// The memory of a rank by purpose, and the tensors alive at its peak.
std::string MemoryText(const Explanation& explanation, int width);

// The rules with the memory that each saves, the padding, and the rule changes.
std::string RulesAndChangesText(const Explanation& explanation, int width);

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_TEXT_H_
