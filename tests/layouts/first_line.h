// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_LAYOUTS_FIRST_LINE_H_
#define TESTS_LAYOUTS_FIRST_LINE_H_

#include <string>

#include "absl/status/status.h"

namespace mtf::testing {

// The first line of an error, which must be complete by itself.
inline std::string FirstLine(const absl::Status& status) {
  const std::string text(status.message());
  return text.substr(0, text.find('\n'));
}

}  // namespace mtf::testing

#endif  // TESTS_LAYOUTS_FIRST_LINE_H_
