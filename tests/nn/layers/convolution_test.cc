// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/convolution.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/convolution.h"
#include "ops/reshape.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2}, kHeight{"height", 4}, kWidth{"width", 3},
    kIn{"in", 4}, kOut{"out", 6};
const Shape kKernel = {{"height", 3}, {"width", 2}};

// The value of parameter `name` as a constant.
Tensor Of(OracleGraph& o, const std::string& name) {
  for (const VariableInfo& info : o.graph.variables()) {
    if (info.name == name) return info.read;
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(ConvolutionLayer, IsTheOperationWithABias) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kHeight, kWidth, kIn});
  const nn::ConvolutionOptions options = {
      .window = {.stride = 2},
      .windows = {{"width", {.padding = WindowPadding::kValid}}},
      .activation = Relu};
  const Tensor y = nn::Convolution(x, kKernel, kIn, kOut, options);
  EXPECT_EQ(y.shape(), Shape({kBatch, {"height", 2}, {"width", 2}, kOut}));
  const Tensor kernel = Of(o, "convolution/kernel");
  EXPECT_EQ(kernel.shape(),
            Shape({{"kernel_height", 3}, {"kernel_width", 2}, kIn, kOut}));
  const Tensor expected =
      Relu(Convolution(
               x, kernel,
               {{"height", "kernel_height", {.stride = 2}},
                {"width", "kernel_width", {.padding = WindowPadding::kValid}}},
               {kIn}) +
           Of(o, "convolution/bias"));
  testing::ExpectNear(o.Run(y), o.Run(expected), 1e-12);
}

TEST(ConvolutionLayer, EachGroupReadsItsOwnChannels) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kHeight, kIn});
  const Tensor y = nn::Convolution(x, {{"height", 3}}, kIn, kOut,
                                   {.groups = 2, .bias = false});
  EXPECT_EQ(y.shape(), Shape({kBatch, kHeight, kOut}));
  const std::vector<double> got = o.Run(y);
  const std::vector<double> xs = o.Value("x");
  // [kernel_height:3, in of a group:2, groups:2, out of a group:3]
  const std::vector<double> w = o.Value("convolution/kernel");
  ASSERT_EQ(w.size(), 3 * 2 * 2 * 3);
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 4; ++h) {
      for (int c = 0; c < 6; ++c) {
        const int group = c / 3;
        double sum = 0;
        for (int k = 0; k < 3; ++k) {
          const int row = h + k - 1;
          if (row < 0 || row > 3) continue;
          for (int i = 0; i < 2; ++i) {
            sum += xs[(b * 4 + row) * 4 + group * 2 + i] *
                   w[((k * 2 + i) * 2 + group) * 3 + c % 3];
          }
        }
        EXPECT_NEAR(got[(b * 4 + h) * 6 + c], sum, 1e-9);
      }
    }
  }
}

TEST(ConvolutionLayer, OneNameForInputAndOutput) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kHeight, kIn});
  const Dimension same{"in", 5};
  const Tensor y = nn::Convolution(x, {{"height", 3}}, kIn, same);
  EXPECT_EQ(y.shape(), Shape({kBatch, kHeight, same}));
  EXPECT_TRUE(Of(o, "convolution/kernel").shape().Contains("in_in"));
  const Tensor z = nn::TransposedConvolution(x, {{"height", 3}}, kIn, same, {},
                                             {.window = {.stride = 2}});
  EXPECT_EQ(z.shape(), Shape({kBatch, {"height", 8}, same}));
  EXPECT_OK(o.graph.status());
}

TEST(ConvolutionLayer, GradientsMatchDifferences) {
  {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kHeight, kWidth, kIn});
    Tensor y = nn::Convolution(x, kKernel, kIn, {"in", 2}, {.groups = 2});
    y = nn::SeparableConvolution(y, kKernel, {"in", 2}, kOut,
                                 {.window = {.stride = 2}, .activation = Tanh});
    o.ExpectGradientsOf(testing::Probe(o, y));
  }
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kHeight, kIn});
  const Tensor y =
      nn::TransposedConvolution(x, {{"height", 3}}, kIn, kOut, {{"height", 7}},
                                {.window = {.stride = 2}});
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(SeparableConvolution, IsDepthwiseThenPointwise) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kHeight, kWidth, kIn});
  const Tensor y =
      nn::SeparableConvolution(x, kKernel, kIn, kOut, {.name = "separable"});
  EXPECT_EQ(y.shape(), Shape({kBatch, kHeight, kWidth, kOut}));
  EXPECT_EQ(Of(o, "separable/kernel").shape(),
            Shape({{"kernel_height", 3}, {"kernel_width", 2}, kIn}));
  EXPECT_EQ(Of(o, "separable/dense/kernel").shape(), Shape({kIn, kOut}));
}

// Records the shape of each kernel that it initializes.
nn::Initializer Record(std::vector<nn::KernelShape>& kernels) {
  return [&kernels](Graph& graph, const nn::KernelShape& kernel) {
    kernels.push_back(kernel);
    return nn::Glorot()(graph, kernel);
  };
}

TEST(ConvolutionLayer, InitializersKnowTheWindow) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kHeight, kWidth, kIn});
  std::vector<nn::KernelShape> kernels;
  const nn::Initializer init = Record(kernels);
  nn::Convolution(x, kKernel, kIn, kOut, {.init = init});
  nn::Convolution(x, kKernel, kIn, kOut, {.groups = 2, .init = init});
  nn::SeparableConvolution(x, kKernel, kIn, kOut, {.init = init});
  nn::TransposedConvolution(x, kKernel, kIn, kOut, {}, {.init = init});
  ASSERT_OK(graph.status());
  // Fan-in and fan-out without the window.
  const std::vector<std::vector<int64_t>> wanted = {
      {24, 6, 6}, {12, 6, 6}, {6, 4, 6}, {4, 6, 1}, {24, 6, 6}};
  ASSERT_EQ(kernels.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(std::vector<int64_t>({kernels[i].fan_in.num_elements(),
                                    kernels[i].fan_out.num_elements(),
                                    kernels[i].window}),
              wanted[i])
        << i;
  }
}

// Initial values of the kernel, or of that of the linear layer, of `layer`.
std::vector<double> InitialKernel(const std::function<void(Tensor x)>& layer,
                                  const std::string& name) {
  OracleGraph o;
  layer(Input(o.graph, "x", kFloat32, {kBatch, kHeight, {"in", 16}}));
  EXPECT_OK(o.graph.status());
  EXPECT_OK(InitializeVariables(o.graph, 5, &o.variables));
  return o.Value(name);
}

TEST(ConvolutionLayer, GlorotHasTheFanOutOfTheWindow) {
  const std::vector<double> kernel = InitialKernel(
      [](Tensor x) {
        nn::Convolution(x, {{"height", 3}}, {"in", 16}, {"out", 48},
                        {.bias = false, .init = nn::Glorot()});
      },
      "convolution/kernel");
  // Uniform up to sqrt(3) deviations: sqrt(6 / (3 * 16 + 3 * 48)).
  const double bound = std::sqrt(6.0 / 192);
  double most = 0;
  for (const double value : kernel) most = std::max(most, std::abs(value));
  EXPECT_LE(most, bound * (1 + 1e-5));
  EXPECT_GT(most, 0.95 * bound);
}

TEST(SeparableConvolution, InitializesBothKernels) {
  for (const char* name : {"separable/kernel", "separable/dense/kernel"}) {
    const auto kernel = [&](double scale, nn::Initializer init) {
      return InitialKernel(
          [&](Tensor x) {
            nn::SeparableConvolution(
                x, {{"height", 3}}, {"in", 16}, kOut,
                {.init_scale = scale, .init = init, .name = "separable"});
          },
          name);
    };
    EXPECT_EQ(kernel(2, nullptr), kernel(1, nn::He())) << name;
    EXPECT_NE(kernel(2, nullptr), kernel(1, nullptr)) << name;
    EXPECT_NE(kernel(1, nn::Glorot()), kernel(1, nullptr)) << name;
  }
}

TEST(ConvolutionLayer, HasAScaleOrAnInitializer) {
  Graph graph;
  nn::Convolution(Input(graph, "x", kFloat32, {kBatch, kHeight, kIn}),
                  {{"height", 3}}, kIn, kOut,
                  {.init_scale = 2, .init = nn::He()});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(".init_scale has no effect with .init")));
}

TEST(ConvolutionLayer, BadCallsAreErrors) {
  const auto expect = [](const std::function<void(Tensor)>& call,
                         const std::string& words) {
    Graph graph;
    call(Zeros(graph, kFloat32, {kBatch, kHeight, kWidth, kIn}));
    EXPECT_THAT(graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
    EXPECT_THAT(graph.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("convolution_test.cc:")));
  };
  expect(
      [](Tensor x) {
        nn::Convolution(x, kKernel, {"in", 5}, kOut);
      },
      "\"in\" is 5 in the call but 4");
  expect(
      [](Tensor x) {
        nn::Convolution(x, kKernel, kIn, {"batch", 3});
      },
      "\"batch\" of the output is already in");
  expect(
      [](Tensor x) { nn::Convolution(x, kKernel, kIn, kOut, {.groups = 4}); },
      ".groups is 4, which does not divide dimension \"out\" of size 6");
  expect(
      [](Tensor x) {
        nn::Convolution(x, kKernel, kIn, kOut, {.windows = {{"depth", {}}}});
      },
      ".windows has \"depth\"");
  expect(
      [](Tensor x) {
        nn::Convolution(x, {{"depth", 3}}, kIn, kOut);
      },
      "\"depth\"");
  expect([](Tensor x) { nn::Convolution(Cast(x, kInt32), kKernel, kIn, kOut); },
         "takes a float dtype");
  expect(
      [](Tensor x) {
        nn::SeparableConvolution(x, kKernel, kIn, kOut, {.groups = 2});
      },
      "has no groups");
  expect(
      [](Tensor x) {
        nn::TransposedConvolution(x, kKernel, kIn, kOut, {}, {.groups = 2});
      },
      "has no groups");
  expect(
      [](Tensor x) {
        x = Rename(x, "batch", "kernel_height");
        nn::Convolution(x, kKernel, kIn, kOut);
      },
      "the name of the windows of the kernel along \"height\"");
  expect(
      [](Tensor x) {
        nn::Convolution(x, kKernel, kIn, {"kernel_width", 2});
      },
      "dimension \"kernel_width\" of the output has the name of the windows");
  expect(
      [](Tensor x) {
        nn::Convolution(x, {{"in", 2}}, kIn, kOut);
      },
      "\"in\" cannot be both the input channels and a dimension of the kernel");
  expect(
      [](Tensor x) {
        nn::TransposedConvolution(x, {{"height", 0}}, kIn, kOut);
      },
      "the kernel has 0 elements along \"height\"");
  expect(
      [](Tensor x) {
        nn::Convolution(Rename(x, "batch", "in_in"), kKernel, kIn, kIn);
      },
      "\"in_in\", the name of the input channels of the kernel");
  expect(
      [](Tensor x) {
        nn::Convolution(Rename(x, "batch", "in_in_group"), kKernel, kIn, kOut,
                        {.groups = 2});
      },
      "\"in_in_group\", the name of the input channels of a group");
  expect(
      [](Tensor x) {
        nn::Convolution(Rename(x, "batch", "out_out_of_group"), kKernel, kIn,
                        kOut, {.groups = 2});
      },
      "\"out_out_of_group\", the name of the output channels of a group");
  EXPECT_FALSE(nn::Convolution(Tensor(), kKernel, kIn, kOut).valid());
}

}  // namespace
}  // namespace mtf
