// SPDX-License-Identifier: Apache-2.0
#ifndef LOWERING_EXPLAIN_PAGE_H_
#define LOWERING_EXPLAIN_PAGE_H_

#include "absl/strings/string_view.h"

namespace mtf::internal {

// lowering/explain_page.html, built in. Defined in a source that CMake writes.
absl::string_view ExplainPage();

}  // namespace mtf::internal

#endif  // LOWERING_EXPLAIN_PAGE_H_
