// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
#include "backends/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planning/machine/machine.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Registry, ListsTheDevicesOfEveryBuild) {
  EXPECT_THAT(DeviceNames(), Contains("cpu"));
  EXPECT_THAT(DeviceNames(), Contains("reference"));
  EXPECT_THAT(DeviceNames(), Contains("cuda_emulated"));
  for (const std::string& name : DeviceNames()) {
    auto device = CreateDevice(name, {});
    ASSERT_OK(device);
    EXPECT_EQ((*device)->name(), name);
  }
}

TEST(Registry, TheCpuFusesWhatItsMachineFilesState) {
  const auto machine = Machine::Load("cpu_host");
  ASSERT_OK(machine);
  const auto device = CreateDevice("cpu", {});
  ASSERT_OK(device);
  EXPECT_EQ(machine->fusion(), (*device)->fusion());
}

TEST(Registry, AnUnavailableDeviceReportsTheReason) {
  const auto device = CreateDevice("cuda", {});
  if (device.ok()) {
    EXPECT_THAT(DeviceNames(), Contains("cuda"));
    return;
  }
  EXPECT_THAT(DeviceNames(), Not(Contains("cuda")));
  // No GPU, no driver, a missing library, or a build without CUDA.
  EXPECT_THAT(device.status().code(),
              AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kNotFound,
                    absl::StatusCode::kUnimplemented));
  EXPECT_FALSE(device.status().message().empty());
}

TEST(Registry, AnUnavailableDeviceMayBeTheNearestName) {
  EXPECT_THAT(CreateDevice("cudo", {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("did you mean \"cuda\"?")));
}

TEST(Registry, AnUnknownDeviceIsAnErrorWithTheNearestName) {
  EXPECT_THAT(CreateDevice("cpux", {}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("no device \"cpux\""),
                             HasSubstr("did you mean \"cpu\"?"),
                             HasSubstr("reference"))));
}

TEST(Registry, ZeroThreadsAreAnError) {
  EXPECT_THAT(
      CreateDevice("cpu", {.num_threads = 0}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_threads")));
}

TEST(StepContext, KeepsTheErrorThatComesFirst) {
  StepContext context;
  EXPECT_TRUE(context.error.ok());
  context.Report(7, 3, 100);
  context.Report(7, 2, 101);
  context.Report(8, 0, 102);
  EXPECT_FALSE(context.error.ok());
  EXPECT_EQ(context.error.instruction, 7);
  EXPECT_EQ(context.error.position, 2);
  EXPECT_EQ(context.error.index, 101);
  context.Report(5, 9, 103);
  EXPECT_EQ(context.error.index, 103);
}

}  // namespace
}  // namespace mtf
