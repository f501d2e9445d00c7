// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_EXPLAIN_EXPLAIN_PAGE_H_
#define PLANNING_EXPLAIN_EXPLAIN_PAGE_H_

#include "absl/strings/string_view.h"

namespace mtf::internal {

// planning/explain/explain_page.html, built in. Defined in a source that CMake
// writes.
absl::string_view ExplainPage();

}  // namespace mtf::internal

#endif  // PLANNING_EXPLAIN_EXPLAIN_PAGE_H_
