// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/loop/progress.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtf::train {
namespace {

using ::testing::HasSubstr;

TEST(Progress, WithoutATerminalPrintsALineEveryTenth) {
  std::ostringstream out;
  Progress progress(out, /*terminal=*/false, /*silent=*/false, 100);
  for (int step = 0; step < 100; ++step) progress.Show(step, 2.5, 18234, step);
  progress.Finish();
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 11);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 0);
  EXPECT_THAT(text, HasSubstr("step 1/100  loss 2.5000  18.2k tokens/s"));
  EXPECT_THAT(text, HasSubstr("step 100/100  loss 2.5000  18.2k tokens/s  "
                              "0:00 left\n"));
}

TEST(Progress, FewStepsHaveALineEach) {
  std::ostringstream out;
  Progress progress(out, false, false, 3);
  for (int step = 0; step < 3; ++step) progress.Show(step, 1, 1, step);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST(Progress, OnATerminalRedrawsABar) {
  std::ostringstream out;
  Progress progress(out, true, false, 2);
  progress.Show(0, 1.25, 500, 60);
  EXPECT_EQ(out.str(),
            "\r[============>           ] step 1/2  loss 1.2500  500 tokens/s"
            "  1:00 left");
  progress.Show(1, 1.125, 500, 120);
  progress.Finish();
  EXPECT_THAT(out.str(), ::testing::EndsWith(
                             "[========================] step 2/2  loss 1.1250"
                             "  500 tokens/s  0:00 left\n"));
}

TEST(Progress, TheBarIsNotRedrawnTooOften) {
  std::ostringstream out;
  Progress progress(out, true, false, 1000);
  for (int step = 0; step < 1000; ++step) {
    progress.Show(step, 1, 1, step * 0.001);
  }
  const std::string text = out.str();
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 12);
}

TEST(Progress, OtherRanksAreSilent) {
  std::ostringstream out;
  Progress progress(out, true, true, 10);
  for (int step = 0; step < 10; ++step) progress.Show(step, 1, 1, 1);
  progress.Finish();
  EXPECT_EQ(out.str(), "");
}

TEST(Progress, FormatsDurationsAndQuantities) {
  EXPECT_EQ(FormatDuration(7.4), "0:07");
  EXPECT_EQ(FormatDuration(760), "12:40");
  EXPECT_EQ(FormatDuration(3 * 3600 + 2 * 60 + 1), "3:02:01");
  EXPECT_EQ(FormatDuration(-1), "0:00");
  EXPECT_EQ(FormatQuantity(950), "950");
  EXPECT_EQ(FormatQuantity(18234), "18.2k");
  EXPECT_EQ(FormatQuantity(1.25e6), "1.25M");
  EXPECT_EQ(FormatQuantity(2e9), "2.00G");
}

}  // namespace
}  // namespace mtf::train
