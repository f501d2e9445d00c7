// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/loop/progress.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mtf::train {
namespace {

using ::testing::HasSubstr;

std::function<int()> Columns(int columns) {
  return [columns] { return columns; };
}

// The lines of a run of 10,000 steps that are drawn over each other.
std::vector<std::string> LinesInColumns(int columns, double loss = 12.3456) {
  constexpr int kSteps = 10000;
  std::ostringstream out;
  Progress progress(out, Columns(columns), false, kSteps);
  for (int step = 0; step < kSteps; ++step) {
    progress.Show(step, loss, 999949, 1.5 * step);
  }
  std::vector<std::string> lines = absl::StrSplit(out.str(), '\r');
  lines.erase(lines.begin());  // before the first '\r'
  return lines;
}

// A terminal that is full to its last column may go on in the next line.
TEST(Progress, TheBarNeverWraps) {
  for (const int columns : {1, 5, 20, 40, 60, 80, 120}) {
    const std::vector<std::string> lines = LinesInColumns(columns);
    EXPECT_EQ(lines.size(), 10000);
    for (const std::string& line : lines) {
      ASSERT_LT(line.size(), std::max(columns, 2)) << line;
    }
    for (const std::string& line : LinesInColumns(columns, 1e300)) {
      ASSERT_LT(line.size(), std::max(columns, 2)) << line;
    }
  }
}

TEST(Progress, TheBarAdaptsToTheTerminal) {
  EXPECT_EQ(LinesInColumns(120)[4999],
            "[============>           ] step 5000/10000  loss 12.3456  "
            "999.9k tokens/s  2:04:59 left");
  EXPECT_EQ(LinesInColumns(80)[4999],
            "[========>       ] step 5000/10000  loss 12.3456  "
            "999.9k tokens/s  2:04:59 left");
  EXPECT_EQ(LinesInColumns(60)[4999],
            "step 5000/10000  loss 12.3456  2:04:59 left");
}

TEST(Progress, TheBarFollowsTheWidthOfTheTerminal) {
  std::ostringstream out;
  int columns = 100;
  Progress progress(
      out, [&columns] { return columns; }, false, 2);
  progress.Show(0, 1, 500, 60);
  columns = 20;
  out.str("");
  progress.Show(1, 1, 500, 120);
  EXPECT_EQ(out.str(), "\rstep 2/2  loss 1.00");
}

TEST(Progress, WithoutATerminalPrintsALineEveryTenth) {
  std::ostringstream out;
  Progress progress(out, /*columns=*/nullptr, /*silent=*/false, 100);
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
  Progress progress(out, nullptr, false, 3);
  for (int step = 0; step < 3; ++step) progress.Show(step, 1, 1, step);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST(Progress, OnATerminalRedrawsABar) {
  std::ostringstream out;
  Progress progress(out, Columns(120), false, 2);
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
  Progress progress(out, Columns(120), false, 1000);
  for (int step = 0; step < 1000; ++step) {
    progress.Show(step, 1, 1, step * 0.001);
  }
  const std::string text = out.str();
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 12);
}

TEST(Progress, OtherRanksAreSilent) {
  std::ostringstream out;
  Progress progress(out, Columns(120), true, 10);
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
