// SPDX-License-Identifier: Apache-2.0
//
// The patterns of scopes in a section "[in layer_*/attention, encoder]" of a
// layout.
#ifndef LAYOUTS_SCOPE_PATTERN_H_
#define LAYOUTS_SCOPE_PATTERN_H_

#include "absl/strings/string_view.h"

namespace mtf {

// Whether `pattern` can be a pattern: components of letters, digits and "_-*",
// separated by slashes.
bool IsScopePattern(absl::string_view pattern);

// Whether `pattern` matches `scope` or a scope that contains it. In a component
// "*" matches any characters; the component "**" matches any number of
// components, so that "**/attention" is "attention" at any depth.
//
//   ScopeMatches("layer_*/attention", "layer_3/attention/query")   true
bool ScopeMatches(absl::string_view pattern, absl::string_view scope);

}  // namespace mtf

#endif  // LAYOUTS_SCOPE_PATTERN_H_
