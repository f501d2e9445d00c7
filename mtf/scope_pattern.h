// SPDX-License-Identifier: Apache-2.0
//
// Patterns of scopes: in a section "[in layer_*/attention, encoder]" of a
// layout, in "no all_gather in layer_*/attention" of a budget, and in the
// groups of parameters of an optimizer.
#ifndef MTF_SCOPE_PATTERN_H_
#define MTF_SCOPE_PATTERN_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace mtf {

// Whether `pattern` can be a pattern: components of letters, digits and "_-*",
// separated by slashes.
bool IsScopePattern(absl::string_view pattern);

// Whether `pattern` matches `name`, a scope or an operation, or a scope that
// contains it. In a component "*" matches any characters; the component "**"
// matches any number of components, so that "**/attention" is "attention" at
// any depth. An empty pattern matches every name.
//
//   ScopeMatches("layer_*/attention", "layer_7/attention/query")  // true
//   ScopeMatches("layer_*/attention", "layer_7/attention_2")      // false
bool ScopeMatches(absl::string_view pattern, absl::string_view name);

// The pattern of a component and those that differ from it in their number:
// "layer_*" for "layer_12". A name without a number is returned unchanged.
std::string PatternOfName(absl::string_view component);

// A pattern that matches one of `names`, for a `pattern` that matches none:
// `pattern` at any depth, "**/attention", or with one component replaced by one
// of `names` of which it is probably a misspelling. "" if there is none. Takes
// time in proportion to the square of the number of names.
std::string CorrectedPattern(absl::string_view pattern,
                             const std::vector<std::string>& names);

}  // namespace mtf

#endif  // MTF_SCOPE_PATTERN_H_
