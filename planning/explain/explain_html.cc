// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "mtf/check.h"
#include "planning/explain/explain.h"
#include "planning/explain/explain_page.h"

namespace mtf {

std::string ExplainHtml(const Explanation& explanation) {
  constexpr absl::string_view kPlaceholder = "@DATA@";
  const absl::string_view page = internal::ExplainPage();
  const size_t position = page.find(kPlaceholder);
  MTF_CHECK(position != page.npos) << "the page has no placeholder for data";
  // "</script>" or "<!--" in a name would end the script element. In JSON
  // strings "\u003c" is the same character as "<".
  const std::string data =
      absl::StrReplaceAll(ExplainJson(explanation), {{"<", "\\u003c"}});
  return absl::StrCat(page.substr(0, position), data,
                      page.substr(position + kPlaceholder.size()));
}

}  // namespace mtf
