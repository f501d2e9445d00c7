// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/softmax.h"

#include <limits>

#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;

const Dimension kBatch{"batch", 2};
const Dimension kVocab{"vocab", 4};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Softmax, IsTheFormulaAlongAnyDimension) {
  for (const Shape& shape : {Shape{kBatch, kVocab}, Shape{kVocab, kBatch}}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", shape);
    const Tensor y = nn::Softmax(x, kVocab);
    EXPECT_EQ(y.shape(), shape);
    const std::vector<double> actual = o.Run(y);
    const auto& in = o.Value("x");
    const bool last = shape[1] == kVocab;
    for (int b = 0; b < 2; ++b) {
      const auto at = [&](int i) { return last ? b * 4 + i : i * 2 + b; };
      double sum = 0;
      for (int i = 0; i < 4; ++i) sum += std::exp(in[at(i)]);
      for (int i = 0; i < 4; ++i) {
        EXPECT_NEAR(actual[at(i)], std::exp(in[at(i)]) / sum, 1e-9);
      }
    }
  }
}

TEST(Softmax, LargeLogitsDoNotOverflow) {
  OracleGraph o;
  const Tensor x =
      o.Parameter("x", {kVocab}, {1e4, 1e4 - std::log(3.0), -1e4, -1e30});
  testing::ExpectNear(o.Run(nn::Softmax(x, kVocab)), {0.75, 0.25, 0, 0});
  testing::ExpectNear(
      o.Run(nn::LogSoftmax(x, kVocab)),
      {std::log(0.75), std::log(0.25), -2e4 + std::log(0.75), -1e30});
}

TEST(Softmax, GradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kVocab});
  o.ExpectGradientsOf(testing::Probe(o, nn::Softmax(x, kVocab)));
}

TEST(Softmax, LogarithmGradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kVocab});
  o.ExpectGradientsOf(testing::Probe(o, nn::LogSoftmax(x, kVocab)));
}

// A sum of exactly 1 is not a tie with the lower limit of the sum.
TEST(Softmax, GradientOfOneDominantLogit) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kVocab}, {0.3, -kInfinity, -1e4, -1e4});
  const Tensor y = nn::Softmax(x, kVocab);
  const Tensor dx = Gradients(testing::Probe(o, y), {x})[0];
  const std::vector<double> p = o.Run(y), actual = o.Run(dx);
  const std::vector<double> w = testing::SomeNumbers(4, 99);
  double mean = 0;
  for (int i = 0; i < 4; ++i) mean += p[i] * w[i];
  std::vector<double> expected;
  for (int i = 0; i < 4; ++i) expected.push_back(p[i] * (w[i] - mean));
  testing::ExpectNear(actual, expected);
}

TEST(Softmax, AFullyMaskedRowIsZeroInValueAndGradient) {
  OracleGraph o;
  const Tensor x = o.Parameter(
      "x", {kBatch, kVocab},
      {-kInfinity, -kInfinity, -kInfinity, -kInfinity, 0, -kInfinity, 0, 0});
  const Tensor y = nn::Softmax(x, kVocab);
  const Tensor dx = Gradients(testing::Probe(o, y), {x})[0];
  const std::vector<double> p = o.Run(y), gradient = o.Run(dx);
  testing::ExpectNear(p, {0, 0, 0, 0, 1. / 3, 0, 1. / 3, 1. / 3});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(gradient[i], 0) << i;
  for (int i = 4; i < 8; ++i) EXPECT_FALSE(std::isnan(gradient[i])) << i;
}

TEST(Softmax, LogarithmOfAFullyMaskedRowHasNoNaN) {
  OracleGraph o;
  const Tensor x = o.Parameter(
      "x", {kVocab}, {-kInfinity, -kInfinity, -kInfinity, -kInfinity});
  const Tensor y = nn::LogSoftmax(x, kVocab);
  const Tensor dx = Gradients(testing::Probe(o, y), {x})[0];
  for (double value : o.Run(y)) EXPECT_EQ(value, -kInfinity);
  for (double value : o.Run(dx)) EXPECT_TRUE(std::isfinite(value));
}

TEST(SoftmaxErrors, AnAbsentDimension) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kBatch});
  nn::Softmax(x, kVocab);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"x\" has no dimension \"vocab\" (softmax, "
                                 "softmax_test.cc:")));
}

}  // namespace
}  // namespace mtf
