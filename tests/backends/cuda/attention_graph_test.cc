// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// cuDNN's fused engines recognize graphs by their form, so whether they support
// ours can be checked without a GPU, on descriptions of GPUs.
#include <string>

#include "backends/cuda/driver_api.h"
#include "backends/cuda/library.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/backends/cuda/described_gpu.h"
#include "tests/matchers.h"

namespace mtf::cuda {
namespace {

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
    const absl::Status status =
        CheckAttention(Problem(1024, 64), DescribedGpu(900));
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
            EXPECT_OK(CheckAttention(problem, DescribedGpu(version)))
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
        EXPECT_OK(CheckAttention(problem, DescribedGpu(900)))
            << problem.ToString();
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
          EXPECT_OK(CheckAttention(problem, DescribedGpu(version)))
              << version << " " << problem.ToString();
        }
      }
    }
  }
}

TEST_F(AttentionGraphTest, UnsupportedProblemsAreUnimplemented) {
  AttentionProblem wide = Problem(1024, 64);
  wide.dtype = kFloat32;
  EXPECT_EQ(CheckAttention(wide, DescribedGpu(900)).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CheckAttention(Problem(1024, 60), DescribedGpu(900)).code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace mtf::cuda
