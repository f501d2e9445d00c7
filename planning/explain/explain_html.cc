// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "mtf/check.h"
#include "planning/explain/explain.h"
#include "planning/explain/explain_page.h"

namespace mtf {

std::string ExplainHtml(const Explanation& explanation) {
  constexpr absl::string_view kPlace = "@DATA@";
  const absl::string_view page = internal::ExplainPage();
  const size_t place = page.find(kPlace);
  MTF_CHECK(place != page.npos) << "the page has no place for data";
  // "</script>" or "<!--" in a name would end the element; within the strings
  // of JSON, "\u003c" is the same character.
  const std::string data =
      absl::StrReplaceAll(ExplainJson(explanation), {{"<", "\\u003c"}});
  return absl::StrCat(page.substr(0, place), data,
                      page.substr(place + kPlace.size()));
}

}  // namespace mtf
