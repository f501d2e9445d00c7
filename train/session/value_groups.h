// SPDX-License-Identifier: Apache-2.0
#ifndef TRAIN_SESSION_VALUE_GROUPS_H_
#define TRAIN_SESSION_VALUE_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace mtf::train {

// The ranks that have the same value.
struct ValueGroup {
  std::string value;
  std::vector<int64_t> ranks;
};

// Groups ranks by value. The smallest group comes first, since it is likely the
// wrong one; among groups of equal size that of rank 0 comes last.
std::vector<ValueGroup> GroupByValue(absl::Span<const std::string> values);

}  // namespace mtf::train

#endif  // TRAIN_SESSION_VALUE_GROUPS_H_
