// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/light_convolution.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "nn/layers/dense.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kBatch{"batch", 2}, kLength{"length", 5}, kModel{"d_model", 4},
    kHeads{"heads", 2};

// The convolution of `x` [batch, length, d_model] with filters(b, i, h), before
// their softmax.
std::vector<double> Convolved(
    const std::vector<double>& x, int taps, int before,
    const std::function<std::vector<double>(int b, int i, int h)>& filters) {
  std::vector<double> y(x.size(), 0.0);
  for (int b = 0; b < 2; ++b) {
    for (int i = 0; i < 5; ++i) {
      for (int c = 0; c < 4; ++c) {
        const std::vector<double> w = filters(b, i, c / 2);
        double sum = 0;
        for (const double each : w) sum += std::exp(each);
        for (int t = 0; t < taps; ++t) {
          const int from = i + t - before;
          if (from < 0 || from >= 5) continue;
          y[(b * 5 + i) * 4 + c] +=
              std::exp(w[t]) / sum * x[(b * 5 + from) * 4 + c];
        }
      }
    }
  }
  return y;
}

TEST(LightweightConvolution, EqualsLoops) {
  for (const bool causal : {false, true}) {
    for (const int taps : {1, 3, 4}) {
      OracleGraph o;
      const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
      const Tensor y = nn::LightweightConvolution(
          x, kLength, kHeads, {.taps = taps, .causal = causal});
      ASSERT_OK(o.graph.status());
      const std::vector<double> w = o.Value("light_convolution/filter");
      const std::vector<double> want =
          Convolved(o.Value("x"), taps, causal ? taps - 1 : (taps - 1) / 2,
                    [&](int, int, int h) {
                      return std::vector<double>(w.begin() + h * taps,
                                                 w.begin() + (h + 1) * taps);
                    });
      testing::ExpectNear(o.Run(y), want);
      o.ExpectGradientsOf(testing::Probe(o, y));
    }
  }
}

TEST(DynamicConvolution, EqualsLoops) {
  for (const bool causal : {false, true}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    const Tensor y = nn::DynamicConvolution(
        x, kLength, kHeads,
        {.taps = 3, .causal = causal, .name = "dynamic_convolution"});
    ASSERT_OK(o.graph.status());
    const std::vector<double> k = o.Value("dynamic_convolution/filter/kernel"),
                              xs = o.Value("x");
    const std::vector<double> want =
        Convolved(xs, 3, causal ? 2 : 1, [&](int b, int i, int h) {
          std::vector<double> w(3, 0.0);
          for (int t = 0; t < 3; ++t) {
            for (int d = 0; d < 4; ++d) {
              w[t] += xs[(b * 5 + i) * 4 + d] * k[(d * 2 + h) * 3 + t];
            }
          }
          return w;
        });
    testing::ExpectNear(o.Run(y), want);
    o.ExpectGradientsOf(testing::Probe(o, y));
  }
}

TEST(ConvolutionBlock, IsAGateAConvolutionAndALayer) {
  for (const bool dynamic : {false, true}) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
    Tensor y, z;
    {
      const Scope scope(o.graph, "net");
      y = nn::ConvolutionBlock(x, kLength, kHeads, dynamic);
    }
    {
      const Scope scope(o.graph, "net", Scope::kReuse);
      const Scope block(o.graph, "convolution_block");
      const Tensor gated =
          nn::Dense(x, {kModel}, {kModel}, {.name = "gated/factor_0"}) *
          nn::Dense(x, {kModel}, {kModel},
                    {.activation = Sigmoid, .name = "gated/factor_1"});
      const nn::LightConvolutionOptions options = {.name = "convolution"};
      z = dynamic ? nn::DynamicConvolution(gated, kLength, kHeads, options)
                  : nn::LightweightConvolution(gated, kLength, kHeads, options);
      z = nn::Dense(z, {kModel}, {kModel}, {.name = "output"});
    }
    ASSERT_OK(o.graph.status());
    testing::ExpectNear(o.Run(y), o.Run(z), 1e-12);
  }
}

TEST(LightConvolution, KeepsItsWeightsInEvaluation) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kLength, kModel});
  const nn::LightConvolutionOptions options = {.dropout = 0.5};
  const Tensor y = nn::LightweightConvolution(x, kLength, kHeads, options);
  EXPECT_NE(o.Run(y), o.Run(y));  // another step
  const ModeScope mode(o.graph, Mode::kEvaluate);
  const Tensor z = nn::LightweightConvolution(x, kLength, kHeads, options);
  EXPECT_EQ(o.Run(z), o.Run(z));
}

TEST(LightConvolutionErrors, SayWhatIsWrong) {
  const auto error = [](const Dimension& length, const Dimension& heads,
                        nn::LightConvolutionOptions options) {
    Graph graph;
    nn::ConvolutionBlock(Input(graph, "x", kFloat32, {kBatch, kLength, kModel}),
                         length, heads, true, options);
    return graph.status();
  };
  EXPECT_THAT(error({"time", 5}, kHeads, {}),
              StatusIs(kInvalid, HasSubstr("time")));
  EXPECT_THAT(error(kLength, {"heads", 3}, {}),
              StatusIs(kInvalid, HasSubstr("\"d_model\" is 4, not a multiple "
                                           "of \"heads\", which is 3")));
  EXPECT_THAT(error(kLength, kHeads, {.taps = 0}),
              StatusIs(kInvalid, HasSubstr(".taps is 0, less than 1")));
  EXPECT_THAT(error(kLength, kHeads, {.dropout = 1}),
              StatusIs(kInvalid, HasSubstr(".dropout")));
  EXPECT_THAT(error(kLength, {"batch", 2}, {}),
              StatusIs(kInvalid, HasSubstr("batch")));
}

}  // namespace
}  // namespace mtf
