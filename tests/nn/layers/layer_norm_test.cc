// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/layer_norm.h"

#include "absl/strings/str_cat.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Dimension kBatch{"batch", 3};
const Dimension kModel{"d_model", 4};

std::vector<double> LayerNormOf(const std::vector<double>& x, double epsilon,
                                const std::vector<double>& scale,
                                const std::vector<double>& bias) {
  std::vector<double> y(x.size());
  for (int b = 0; b < 3; ++b) {
    double mean = 0, variance = 0;
    for (int i = 0; i < 4; ++i) mean += x[b * 4 + i] / 4;
    for (int i = 0; i < 4; ++i) {
      variance += (x[b * 4 + i] - mean) * (x[b * 4 + i] - mean) / 4;
    }
    for (int i = 0; i < 4; ++i) {
      y[b * 4 + i] =
          (x[b * 4 + i] - mean) / std::sqrt(variance + epsilon) * scale[i] +
          bias[i];
    }
  }
  return y;
}

TEST(LayerNorm, IsTheFormula) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor y = nn::LayerNorm(x, kModel, {.epsilon = 0.1});
  EXPECT_EQ(y.shape(), x.shape());
  testing::ExpectNear(
      o.Run(y), LayerNormOf(o.Value("x"), 0.1, o.Value("layer_norm/scale"),
                            o.Value("layer_norm/bias")));
}

TEST(LayerNorm, LargeMeanLosesNoPrecision) {
  OracleGraph o;
  std::vector<double> values = testing::SomeNumbers(12, 3), large = values;
  for (double& value : large) value += 1e6;
  const Tensor x = o.Parameter("x", {kBatch, kModel}, large);
  const Tensor y = nn::LayerNorm(x, kModel, {.scale = false, .bias = false});
  EXPECT_THAT(o.graph.variables(), SizeIs(1));
  testing::ExpectNear(
      o.Run(y), LayerNormOf(values, 1e-5, {1, 1, 1, 1}, {0, 0, 0, 0}), 1e-8);
}

TEST(LayerNorm, WorksOverAnyDimension) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kModel, kBatch});
  const Tensor y = nn::LayerNorm(x, kModel, {.scale = false, .bias = false});
  EXPECT_EQ(y.shape(), x.shape());
  const std::vector<double> actual = o.Run(y);
  for (int b = 0; b < 3; ++b) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += actual[i * 3 + b];
    EXPECT_NEAR(sum, 0, 1e-9);
  }
}

TEST(LayerNorm, GradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  o.ExpectGradientsOf(testing::Probe(o, nn::LayerNorm(x, kModel)));
}

TEST(LayerNorm, TwoInOneScopeAndF32InsideBf16) {
  Graph graph;
  Tensor x = Zeros(graph, kBFloat16, {kBatch, kModel});
  x = nn::LayerNorm(nn::LayerNorm(x, kModel), kModel);
  ASSERT_OK(graph.status());
  EXPECT_EQ(x.dtype(), kBFloat16);
  EXPECT_EQ(graph.variables()[0].name, "layer_norm/scale");
  EXPECT_EQ(graph.variables()[2].name, "layer_norm_1/scale");
  for (const auto& operation : graph.operations()) {
    if (operation->kind() != "reduce_sum") continue;
    EXPECT_EQ(operation->dtype(), kFloat32);
  }
}

TEST(RmsNorm, IsTheFormula) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor y = nn::RmsNorm(x, kModel, {.epsilon = 0.1});
  const std::vector<double> actual = o.Run(y);
  const auto& in = o.Value("x");
  const auto& scale = o.Value("rms_norm/scale");
  std::vector<double> expected;
  for (int b = 0; b < 3; ++b) {
    double square = 0;
    for (int i = 0; i < 4; ++i) square += in[b * 4 + i] * in[b * 4 + i] / 4;
    for (int i = 0; i < 4; ++i) {
      expected.push_back(in[b * 4 + i] / std::sqrt(square + 0.1) * scale[i]);
    }
  }
  testing::ExpectNear(actual, expected);
}

TEST(RmsNorm, GradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  o.ExpectGradientsOf(testing::Probe(o, nn::RmsNorm(x, kModel)));
}

TEST(LayerNormErrors, AnAbsentDimension) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  nn::LayerNorm(x, {"length", 4});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"x\" has no dimension \"length\" "
                                 "(layer_norm, layer_norm_test.cc:")));
}

TEST(LayerNormErrors, AnotherSize) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch, kModel});
  nn::RmsNorm(x, {"d_model", 5});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dimension \"d_model\" is 5 in the call but 4 "
                                 "in \"x\" (rms_norm, layer_norm_test.cc:")));
}

TEST(LayerNormErrors, EpsilonThatIsNotPositive) {
  for (const double epsilon : {0.0, -1e-5, 1e-60, 1e60, std::nan("")}) {
    Graph graph, second;
    const int line = __LINE__ + 1;
    nn::LayerNorm(Input(graph, "x", kFloat32, {kModel}), kModel,
                  {.epsilon = epsilon});
    EXPECT_THAT(graph.status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat(".epsilon is ", epsilon,
                                      ", not a positive number of f32 "
                                      "(layer_norm, layer_norm_test.cc:",
                                      line, ")")));
    nn::RmsNorm(Input(second, "x", kFloat32, {kModel}), kModel,
                {.epsilon = epsilon});
    EXPECT_THAT(second.status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(", not a positive number of f32 (rms_norm, "
                                   "layer_norm_test.cc:")));
  }
}

// A name is a part of the names of variables.
TEST(LayerNormErrors, AnEmptyName) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kModel});
  nn::LayerNorm(x, kModel, {.name = ""});
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the name \"\" of a layer or scope is empty "
                                 "(scope, layer_norm_test.cc:")));
}

}  // namespace
}  // namespace mtf
