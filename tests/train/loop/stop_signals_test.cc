// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "train/loop/stop_signals.h"

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/constant.h"
#include "tests/matchers.h"
#include "train/loop/run_main.h"

namespace mtf::train {
namespace {

TEST(StopSignals, NoteTheFirstSignal) {
  const StopSignals signals;
  EXPECT_EQ(signals.Received(), 0);
  raise(SIGUSR1);
  EXPECT_EQ(signals.Received(), SIGUSR1);
  raise(SIGTERM);
  raise(SIGUSR1);
  EXPECT_EQ(signals.Received(), SIGUSR1);
}

TEST(StopSignals, AgreeInASession) {
  Graph graph;
  Zeros(graph, kFloat32, {});
  const auto session = Session::Create(graph, "", "");
  ASSERT_OK(session);
  const StopSignals signals;
  EXPECT_EQ(*signals.Agree(**session), 0);
  raise(SIGTERM);
  EXPECT_EQ(*signals.Agree(**session), SIGTERM);
}

TEST(StopSignalsDeathTest, ASecondSigtermEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        raise(SIGTERM);
        raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignalsDeathTest, FormerHandlersApplyAtTheEnd) {
  EXPECT_EXIT(
      {
        { const StopSignals signals; }
        raise(SIGUSR1);
      },
      ::testing::KilledBySignal(SIGUSR1), "");
}

TEST(StoppedBySignal, HasTheExitCodeOfStartAgain) {
  const absl::Status status = StoppedBySignal(SIGTERM, 12, "run/step_12");
  EXPECT_EQ(ExitCode(status.code()), 75);
  EXPECT_THAT(
      std::string(status.message()),
      ::testing::StartsWith("training was stopped by SIGTERM after step 12\n"));
}

}  // namespace
}  // namespace mtf::train
