// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/loop/loss_watch.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf::train {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

// Losses 1 and 3: mean 2, deviation 1.
LossWatch Filled(LossWatch::Options options, int losses) {
  LossWatch watch(options);
  for (int i = 0; i < losses; ++i) watch.Add(i % 2 == 0 ? 1 : 3);
  return watch;
}

TEST(LossWatch, FindsALossOverTheLimitOnly) {
  const LossWatch watch = Filled({.deviations = 4}, 40);
  EXPECT_DOUBLE_EQ(watch.Limit(), 6);
  EXPECT_FALSE(watch.IsSpike(5.999));
  EXPECT_TRUE(watch.IsSpike(6.001));
  EXPECT_FALSE(watch.IsSpike(-100));
  EXPECT_FALSE(watch.IsSpike(std::nan("")));
}

TEST(LossWatch, NeedsTwentyLosses) {
  EXPECT_FALSE(Filled({.deviations = 4}, 19).IsSpike(1e9));
  EXPECT_TRUE(Filled({.deviations = 4}, 20).IsSpike(1e9));
}

TEST(LossWatch, IsOffWithoutDeviations) {
  EXPECT_FALSE(Filled({}, 100).IsSpike(1e9));
}

TEST(LossWatch, ForgetsWhatIsBeforeTheWindow) {
  LossWatch watch({.deviations = 4, .window = 20});
  for (int i = 0; i < 100; ++i) watch.Add(1000);
  for (int i = 0; i < 20; ++i) watch.Add(i % 2 == 0 ? 1 : 3);
  EXPECT_DOUBLE_EQ(watch.Limit(), 6);
}

TEST(LossWatch, MeansAreOfTheLastLosses) {
  LossWatch watch({.window = 20});
  EXPECT_EQ(watch.MeanOfLast(3), 0);
  for (int i = 1; i <= 30; ++i) watch.Add(i);
  EXPECT_EQ(watch.MeanOfLast(0), 0);
  EXPECT_EQ(watch.MeanOfLast(3), 29);
  EXPECT_EQ(watch.MeanOfLast(100), 20.5);  // of 11 to 30
}

TEST(LossWatch, ItsStateHasEveryBit) {
  LossWatch watch({.deviations = 3});
  for (int i = 1; i < 50; ++i) watch.Add(1.0 / i);
  LossWatch other({.deviations = 3});
  ASSERT_OK(other.SetState(watch.State()));
  EXPECT_EQ(other.Limit(), watch.Limit());
  EXPECT_EQ(other.State(), watch.State());
  ASSERT_OK(other.SetState(""));
  EXPECT_EQ(other.State(), "");
  EXPECT_THAT(other.SetState("1 nan"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nan")));
}

}  // namespace
}  // namespace mtf::train
