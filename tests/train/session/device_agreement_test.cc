// SPDX-License-Identifier: Apache-2.0
// Build: optimised only (trains every device against every other)
//
// Every device trains like the CPU: from bitwise equal initial values, with the
// same dropout, to the same losses, alone and as a mesh of virtual devices.
// Tests of unavailable devices are skipped with the reason.
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"
#include "tests/train/small_lm.h"

namespace mtf::train {
namespace {

struct Case {
  std::string mesh;
  std::string layout;
  std::string device;

  friend void PrintTo(const Case& c, std::ostream* out) {
    *out << c.device << " mesh \"" << c.mesh << "\" layout \"" << c.layout
         << "\"";
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& device : DeviceNames()) {
    if (device == "cpu") continue;
    cases.push_back({"", "", device});
    cases.push_back({"data:2,model:2", "data_model", device});
    cases.push_back({"data:4", "zero3", device});
    cases.push_back({"data:2,sequence:2,model:2", "three_axes", device});
    cases.push_back({"data:3,model:2", "batch:data, d_model:model", device});
  }
  return cases;
}

// Fifty steps on hardware. Emulated devices are slow, and errors show in the
// first gradients.
int StepsOn(const std::string& device) { return device == "cuda" ? 50 : 3; }

absl::StatusOr<SmallRun> RunOn(const Case& c, const Precision& precision = {}) {
  SessionOptions options;
  options.backend = c.device;
  return RunSmallLm(c.mesh, c.layout, StepsOn(c.device), options, precision);
}

const SmallRun& OneCpu() {
  static const SmallRun* run = [] {
    absl::StatusOr<SmallRun> result = RunSmallLm("", "", 50);
    EXPECT_OK(result);
    return new SmallRun(*std::move(result));
  }();
  return *run;
}

// The largest relative difference of `losses` from the first of `wanted`.
double LossDifference(const std::vector<double>& losses,
                      const std::vector<double>& wanted) {
  double largest = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    largest = std::max(largest, std::abs(losses[i] - wanted[i]) / wanted[i]);
  }
  return largest;
}

class DeviceAgreement : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto device = CreateDevice(GetParam().device, {.num_threads = 1});
    if (device.ok()) return;
    ASSERT_TRUE(absl::IsUnavailable(device.status()) ||
                absl::IsNotFound(device.status()) ||
                absl::IsUnimplemented(device.status()))
        << device.status();
    GTEST_SKIP() << device.status().message();
  }
};

TEST_P(DeviceAgreement, TrainsLikeTheCpu) {
  const SmallRun& cpu = OneCpu();
  const absl::StatusOr<SmallRun> run = RunOn(GetParam());
  ASSERT_OK(run);
  for (const auto& [name, value] : cpu.initial) {
    EXPECT_TRUE(run->initial.at(name) == value) << "initial bits of " << name;
  }
  ASSERT_EQ(run->masks.size(), 3u);
  for (size_t i = 0; i < run->masks.size(); ++i) {
    EXPECT_TRUE(run->masks[i] == cpu.masks[i]) << "dropout of step " << i;
  }
  EXPECT_EQ(run->losses.size(),
            static_cast<size_t>(StepsOn(GetParam().device)));
  EXPECT_LE(LossDifference(run->losses, cpu.losses), 1e-3);
  EXPECT_EQ(run->counted, run->planned);
}

TEST_P(DeviceAgreement, HalfPrecisionStaysCloseToSingle) {
  const absl::StatusOr<SmallRun> run =
      RunOn(GetParam(), {.activations = kBFloat16});
  ASSERT_OK(run);
  EXPECT_LE(LossDifference(run->losses, OneCpu().losses), 0.02);
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceAgreement, ::testing::ValuesIn(Cases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           std::string name = absl::StrCat(
                               info.param.mesh, "_", info.param.layout, "_",
                               info.param.device);
                           for (char& c : name) {
                             if (!isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace mtf::train
