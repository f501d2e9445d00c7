// SPDX-License-Identifier: Apache-2.0
//
// Pass tests are text, pass, text:
//
//   EXPECT_EQ(AfterPass("fuse_maps", R"(
//   mesh{x:2}
//   ...
//   )"), R"(
//   mesh{x:2}
//   ...
//   )");
//
// without the line that ends a text.
#ifndef TESTS_LOWERING_PASS_TEST_H_
#define TESTS_LOWERING_PASS_TEST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "lowering/lower.h"
#include "mtf/status.h"
#include "tests/matchers.h"
#include "tests/program_text.h"

namespace mtf::testing {

// The text of a program after `passes`, in order, or the message of the error.
// It begins with a line break, like a raw string whose text begins on its own
// line.
inline std::string AfterPasses(const std::vector<std::string>& passes,
                               absl::string_view text) {
  absl::StatusOr<Program> program = ParseText(text);
  if (!program.ok()) return ErrorText(program.status());
  for (const std::string& pass : passes) {
    const absl::Status status = RunPass(pass, *program);
    if (!status.ok()) return absl::StrCat(pass, ": ", ErrorText(status));
  }
  return absl::StrCat("\n", TextOf(*program));
}

inline std::string AfterPass(const std::string& pass, absl::string_view text) {
  return AfterPasses({pass}, text);
}

// Expects that the pass does not change the text.
inline void ExpectUnchanged(const std::string& pass, absl::string_view text) {
  EXPECT_EQ(AfterPass(pass, text), std::string(text));
}

}  // namespace mtf::testing

#endif  // TESTS_LOWERING_PASS_TEST_H_
