// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// cuDNN's fused engines recognize graphs by their form, so whether they support
// ours can be checked without a GPU, on descriptions of GPUs.
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/cuda/driver_api.h"
#include "backends/cuda/library.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf::cuda {
namespace {

// The description that cuDNN 9 writes for a GPU of capability `version` / 100.
std::string Device(int version) {
  return absl::StrCat(
      "{\"deviceName\":\"GPU\",\"cudaDeviceId\":0,\"deviceVer\":", version,
      ",\"driverVer\":13000,\"maxGridSize\":[2147483647,65535,65535],"
      "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
      "\"multiProcessorCount\":132,\"warpSize\":32,"
      "\"maxSharedMemoryPerBlock\":49152,"
      "\"maxSharedMemoryPerBlockOptin\":232448,"
      "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
      "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
      "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
      "\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,"
      "\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,"
      "\"totalGlobalMem\":150754820096}");
}

// Heads between length and d, as in our layers.
AttentionProblem Problem(int64_t length, int64_t d) {
  AttentionProblem problem;
  problem.batch = 4;
  problem.heads = 12;
  problem.length = problem.memory = length;
  problem.d = d;
  problem.scale = 0.125;
  problem.q = problem.k = problem.v = problem.o = {length * 12 * d, d, 12 * d};
  return problem;
}

class AttentionGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!FindDriverFunction(kMtfCudaCheckAttention).ok()) {
      GTEST_SKIP() << "this build has no CUDA";
    }
    const absl::Status status = CheckAttention(Problem(1024, 64), Device(900));
    if (absl::IsUnimplemented(status) &&
        std::string(status.message()).find("without cuDNN") !=
            std::string::npos) {
      GTEST_SKIP() << "this build has no cuDNN";
    }
  }
};

TEST_F(AttentionGraphTest, EnginesOfEveryGpuSupportForwardAndGradient) {
  for (int version : {800, 900, 1000}) {
    for (DType dtype : {kBFloat16, kFloat16}) {
      for (bool backward : {false, true}) {
        for (bool causal : {false, true}) {
          for (bool reproducible : {false, true}) {
            AttentionProblem problem = Problem(1024, 64);
            problem.dtype = dtype;
            problem.backward = backward;
            problem.causal = causal;
            problem.reproducible = reproducible;
            EXPECT_OK(CheckAttention(problem, Device(version)))
                << version << " " << problem.ToString();
          }
        }
      }
    }
  }
}

TEST_F(AttentionGraphTest, AnyLengthAndDepthIsSupported) {
  for (int64_t length : {2, 77, 1000, 4096}) {
    for (int64_t d : {8, 40, 128}) {
      for (bool backward : {false, true}) {
        AttentionProblem problem = Problem(length, d);
        problem.causal = true;
        problem.backward = backward;
        EXPECT_OK(CheckAttention(problem, Device(900))) << problem.ToString();
      }
    }
  }
}

// A bias over any of the dimensions. That extents of 1 are broadcast is only
// stated in cuDNN's documentation (NVIDIA, "Attention", bias mask).
TEST_F(AttentionGraphTest, EnginesSupportABiasBeforeTheMask) {
  for (int version : {800, 900, 1000}) {
    for (int form = 0; form < 8; ++form) {
      for (bool backward : {false, true}) {
        for (bool causal : {false, true}) {
          AttentionProblem problem = Problem(1000, 64);
          problem.backward = backward;
          problem.causal = causal;
          problem.bias = {.given = true,
                          .batch = (form & 1) != 0,
                          .heads = (form & 2) != 0,
                          .length = (form & 4) != 0};
          EXPECT_OK(CheckAttention(problem, Device(version)))
              << version << " " << problem.ToString();
        }
      }
    }
  }
}

TEST_F(AttentionGraphTest, UnsupportedProblemsAreUnimplemented) {
  AttentionProblem wide = Problem(1024, 64);
  wide.dtype = kFloat32;
  EXPECT_EQ(CheckAttention(wide, Device(900)).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CheckAttention(Problem(1024, 60), Device(900)).code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace mtf::cuda
