// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_EXPLAIN_EXPLAIN_PAGE_H_
#define PLANNING_EXPLAIN_EXPLAIN_PAGE_H_

#include "absl/strings/string_view.h"

namespace mtf::internal {

// The text of planning/explain/page/page.html with its style sheet and its
// scripts inside. Defined in a source file that CMake generates from
// explain_page.cc.in.
absl::string_view ExplainPage();

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_PAGE_H_
