// SPDX-License-Identifier: Apache-2.0
#ifndef TOOLS_READ_LAYOUT_H_
#define TOOLS_READ_LAYOUT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "layouts/layout_rules.h"

namespace mtf::tools {

// The path in an argument of a command that is a file, the name of a preset or
// rules: without its "@", of a file that exists, or of text that looks like a
// path and not like rules, so that a wrong path gets the error of a missing
// file. "" for a preset or rules.
std::string PathOf(const std::string& argument);

// The layout that such an argument is. Errors call one that is not a file
// `source`.
absl::StatusOr<LayoutRules> ReadLayout(const std::string& argument,
                                       absl::string_view source);

}  // namespace mtf::tools

#endif  // TOOLS_READ_LAYOUT_H_
