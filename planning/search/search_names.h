// SPDX-License-Identifier: Apache-2.0
#ifndef PLANNING_SEARCH_SEARCH_NAMES_H_
#define PLANNING_SEARCH_SEARCH_NAMES_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace mtf::internal {

// A hash of the name of an operation without its digits, so that equal
// operations of layers and repeated calls have the same key. The same in every
// process.
//
//   NameKey("layer_3/add_1") == NameKey("layer_0/add_12")
inline uint64_t NameKey(absl::string_view name) {
  uint64_t key = 0xcbf29ce484222325;  // FNV-1a
  for (char c : name) {
    if (c >= '0' && c <= '9') continue;
    key = (key ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return key;
}

}  // namespace mtf::internal

#endif  // PLANNING_SEARCH_SEARCH_NAMES_H_
