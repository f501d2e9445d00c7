// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/feed_forward.h"

#include "ops/elementwise.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Dimension kBatch{"batch", 2};
const Dimension kModel{"d_model", 3};
const Dimension kHidden{"d_ff", 4};

std::vector<double> Multiplied(const std::vector<double>& x,
                               const std::vector<double>& w, int inner,
                               int outer) {
  std::vector<double> y(2 * outer, 0.0);
  for (int b = 0; b < 2; ++b) {
    for (int k = 0; k < inner; ++k) {
      for (int n = 0; n < outer; ++n) {
        y[b * outer + n] += x[b * inner + k] * w[k * outer + n];
      }
    }
  }
  return y;
}

TEST(FeedForward, IsTwoProductsAroundAnActivation) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor y = nn::FeedForward(x, kHidden, Relu);
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_THAT(o.graph.variables(), SizeIs(3));
  const std::vector<double> actual = o.Run(y);
  std::vector<double> h =
      Multiplied(o.Value("x"), o.Value("feed_forward/in/kernel"), 3, 4);
  for (double& value : h) value = std::max(value, 0.0);
  testing::ExpectNear(actual,
                      Multiplied(h, o.Value("feed_forward/out/kernel"), 4, 3));
}

TEST(FeedForward, GatedMultipliesTheActivation) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor y = nn::FeedForward(x, kHidden, Swish, {.gated = true});
  const std::vector<double> actual = o.Run(y);
  std::vector<double> h =
      Multiplied(o.Value("x"), o.Value("feed_forward/in/kernel"), 3, 4);
  const std::vector<double> gate =
      Multiplied(o.Value("x"), o.Value("feed_forward/gate/kernel"), 3, 4);
  for (int i = 0; i < 8; ++i) h[i] *= gate[i] / (1 + std::exp(-gate[i]));
  testing::ExpectNear(actual,
                      Multiplied(h, o.Value("feed_forward/out/kernel"), 4, 3));
}

TEST(FeedForward, GradientsMatchDifferences) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor y =
      nn::FeedForward(x, kHidden, Gelu, {.bias = true, .gated = true});
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(FeedForward, AcceptsALambdaWithCaptures) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const double slope = 0.3;
  const Tensor y = nn::FeedForward(
      x, kHidden, [slope](Tensor h) { return Select(h > 0.0, h, slope * h); });
  const std::vector<double> actual = o.Run(y);
  std::vector<double> h =
      Multiplied(o.Value("x"), o.Value("feed_forward/in/kernel"), 3, 4);
  for (double& value : h) value = value > 0 ? value : slope * value;
  testing::ExpectNear(actual,
                      Multiplied(h, o.Value("feed_forward/out/kernel"), 4, 3));
}

TEST(FeedForward, AcceptsAUserFunction) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor y =
      nn::FeedForward(x, kHidden, [](TensorArg h) { return Square(Relu(h)); });
  o.ExpectGradientsOf(testing::Probe(o, y));
}

TEST(FeedForwardErrors, AScalar) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {});
  nn::FeedForward(x, kHidden, Relu);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"x\" is a scalar, but its last dimension is "
                                 "needed as the model dimension "
                                 "(feed_forward, feed_forward_test.cc:")));
}

TEST(FeedForwardErrors, AHiddenDimensionThatXHas) {
  Graph graph;
  const Tensor x = Input(graph, "x", kFloat32, {kHidden, kModel});
  nn::FeedForward(x, kHidden, Relu);
  EXPECT_THAT(graph.status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("dimension \"d_ff\" of the output is "
                                       "already in \"x\""),
                             HasSubstr("(dense \"in\", "
                                       "feed_forward_test.cc:"))));
}

}  // namespace
}  // namespace mtf
