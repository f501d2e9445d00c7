// SPDX-License-Identifier: Apache-2.0
// Build: no ThreadSanitizer (starts no threads)
//
// Whether cuDNN has an engine for a convolution can be checked without a GPU,
// on descriptions of GPUs.
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/driver_api.h"
#include "backends/cuda/library.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/backends/cuda/described_gpu.h"
#include "tests/matchers.h"

namespace mtf::cuda {
namespace {

using Computes = ConvolutionProblem::Computes;
using Spatial = ConvolutionProblem::Spatial;

ConvolutionProblem ImageProblem(std::vector<Spatial> spatial) {
  ConvolutionProblem problem;
  problem.batch = 8;
  problem.inputs = problem.outputs = 64;
  problem.spatial = std::move(spatial);
  return problem;
}

const Spatial kSame = {
    .input = 28, .output = 28, .window = 3, .before = 1, .after = 1};

std::vector<ConvolutionProblem> Problems() {
  const Spatial halves = {.input = 28, .output = 14, .window = 3, .stride = 2};
  Spatial after = halves, before = halves, unread = halves;
  after.after = 1;  // zeros at the end only
  before.before = 1;
  unread.input = 30;  // an element at the end that no window reads
  unread.after = -1;
  const Spatial dilated = {.input = 28,
                           .output = 28,
                           .window = 3,
                           .dilation = 2,
                           .before = 2,
                           .after = 2};
  const Spatial deep = {
      .input = 8, .output = 8, .window = 3, .before = 1, .after = 1};
  std::vector<ConvolutionProblem> problems = {
      ImageProblem({kSame, kSame}),   ImageProblem({after, after}),
      ImageProblem({before, kSame}),  ImageProblem({dilated, dilated}),
      ImageProblem({unread, unread}), ImageProblem({kSame}),
      ImageProblem({after}),          ImageProblem({deep, deep, deep})};
  ConvolutionProblem odd = ImageProblem({kSame, kSame});
  odd.inputs = 3;
  odd.outputs = 13;
  ConvolutionProblem grouped = ImageProblem({kSame, kSame});
  grouped.groups = 4;
  grouped.inputs = grouped.outputs = 16;
  ConvolutionProblem depthwise = ImageProblem({kSame, kSame});
  depthwise.groups = 64;
  depthwise.inputs = depthwise.outputs = 1;
  problems.insert(problems.end(), {odd, grouped, depthwise});
  return problems;
}

class ConvolutionGraphTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!FindDriverFunction(kMtfCudaCheckConvolution).ok()) {
      GTEST_SKIP() << "this build has no CUDA";
    }
    const absl::Status status =
        CheckConvolution(ImageProblem({kSame, kSame}), DescribedGpu(900));
    if (absl::IsUnimplemented(status) &&
        std::string(status.message()).find("without cuDNN") !=
            std::string::npos) {
      GTEST_SKIP() << "this build has no cuDNN";
    }
  }
};

// Also with every limit on engines: the same bits in every run, and float32
// that is not rounded to TF32.
TEST_F(ConvolutionGraphTest, EnginesOfEveryGpuSupportAllConvolutions) {
  for (int version : {800, 900, 1000}) {
    for (ConvolutionProblem problem : Problems()) {
      for (DType dtype : {kFloat32, kBFloat16, kFloat16}) {
        for (Computes computes :
             {Computes::kOutput, Computes::kInput, Computes::kFilter}) {
          problem.dtype = dtype;
          problem.computes = computes;
          EXPECT_OK(CheckConvolution(problem, DescribedGpu(version)))
              << version << " " << problem.ToString();
        }
      }
    }
  }
}

TEST_F(ConvolutionGraphTest, Tf32IsSupported) {
  ConvolutionProblem problem = ImageProblem({kSame, kSame});
  problem.tf32 = true;
  EXPECT_OK(CheckConvolution(problem, DescribedGpu(900)));
}

TEST_F(ConvolutionGraphTest, WrongExtentsAreErrors) {
  Spatial wrong = kSame;
  wrong.output = 20;
  EXPECT_FALSE(
      CheckConvolution(ImageProblem({wrong, wrong}), DescribedGpu(900)).ok());
}

}  // namespace
}  // namespace mtf::cuda
