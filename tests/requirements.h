// SPDX-License-Identifier: Apache-2.0
//
// What a test needs of the build or of the run that it is part of.
#ifndef TESTS_REQUIREMENTS_H_
#define TESTS_REQUIREMENTS_H_

#include <cstdlib>

#include "gtest/gtest.h"

namespace mtf::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = kThreadSanitized;
#endif

// Whether this run checks every value of parameters that are alike, such as the
// generation of a GPU: MTF_THOROUGH_TESTS=1, as continuous integration sets it.
inline bool ThoroughTests() {
  const char* value = std::getenv("MTF_THOROUGH_TESTS");
  return value != nullptr && value[0] == '1';
}

}  // namespace mtf::testing

// Statements at the beginning of a test or of SetUp that skip the test where it
// takes minutes and covers no code that a smaller one does not.
//
//   if (GetParam() == "reference") SKIP_UNDER_SANITIZERS("a large sum");
#define SKIP_UNDER_SANITIZERS(reason)                         \
  do {                                                        \
    if (::mtf::testing::kSanitized) GTEST_SKIP() << (reason); \
  } while (false)
#define SKIP_UNDER_THREAD_SANITIZER(reason)                         \
  do {                                                              \
    if (::mtf::testing::kThreadSanitized) GTEST_SKIP() << (reason); \
  } while (false)
#define SKIP_UNLESS_THOROUGH(reason)                                  \
  do {                                                                \
    if (!::mtf::testing::ThoroughTests()) {                           \
      GTEST_SKIP() << (reason) << "; MTF_THOROUGH_TESTS=1 runs this"; \
    }                                                                 \
  } while (false)

#endif  // TESTS_REQUIREMENTS_H_
