// SPDX-License-Identifier: Apache-2.0
#include "backends/environment_switch.h"

#include <stdlib.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtf {
namespace {

constexpr char kName[] = "MTF_SWITCH_OF_A_TEST";

bool With(const char* value, bool otherwise) {
  setenv(kName, value, /*overwrite=*/1);
  const bool is = EnvironmentSwitch(kName, otherwise);
  unsetenv(kName);
  return is;
}

TEST(EnvironmentSwitch, IsOneZeroOrNotSet) {
  for (bool otherwise : {false, true}) {
    EXPECT_EQ(EnvironmentSwitch(kName, otherwise), otherwise);
    EXPECT_TRUE(With("1", otherwise));
    EXPECT_FALSE(With("0", otherwise));
  }
}

TEST(EnvironmentSwitch, InvalidValuesAreReportedOnce) {
  static int runs = 0;
  const std::string name = absl::StrCat(kName, "_", ++runs);
  setenv(name.c_str(), "false", /*overwrite=*/1);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(EnvironmentSwitch(name.c_str(), true));
  EXPECT_FALSE(EnvironmentSwitch(name.c_str(), false));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            absl::StrCat(name, " \"false\" is neither 1 nor 0; using 1\n"));
  unsetenv(name.c_str());
}

}  // namespace
}  // namespace mtf
