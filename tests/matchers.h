// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_MATCHERS_H_
#define TESTS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtf::testing {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& statusor) {
  return statusor.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hidden"))
MATCHER_P2(StatusIs, code, message, "has the code and the message") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         ::testing::ExplainMatchResult(
             message, std::string(StatusOf(arg).message()), result_listener);
}

}  // namespace mtf::testing

#define ASSERT_OK(expression) ASSERT_THAT(expression, ::mtf::testing::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT(expression, ::mtf::testing::IsOk())

#endif  // TESTS_MATCHERS_H_
