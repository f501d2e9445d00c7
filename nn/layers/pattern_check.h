// SPDX-License-Identifier: Apache-2.0
//
// For options that are patterns of names. Not for users.
#ifndef NN_LAYERS_PATTERN_CHECK_H_
#define NN_LAYERS_PATTERN_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace mtf::nn::internal {

// Checks that `pattern` (mtf/scope_pattern.h), which is the option `option`,
// matches one of `names`, which are those of each `kind`: "parameter".
// Otherwise the error suggests the nearest pattern.
absl::Status CheckMatches(absl::string_view option, absl::string_view pattern,
                          const std::vector<std::string>& names,
                          absl::string_view kind = "parameter");

}  // namespace mtf::nn::internal

#endif  // NN_LAYERS_PATTERN_CHECK_H_
