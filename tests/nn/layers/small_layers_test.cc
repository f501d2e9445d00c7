// SPDX-License-Identifier: Apache-2.0
//
// Layers of a few operations: noise, control of gradients, unit scaling, norms
// and scales of one parameter, products of linear layers.
#include <cmath>
#include <functional>
#include <numeric>

#include "nn/layers/dense.h"
#include "nn/layers/feed_forward.h"
#include "nn/layers/gradient_control.h"
#include "nn/layers/layer_norm.h"
#include "nn/layers/regularization.h"
#include "nn/layers/rezero.h"
#include "nn/layers/unit_scaling.h"
#include "ops/einsum.h"
#include "ops/random.h"
#include "tests/nn/oracle.h"

namespace mtf {
namespace {

using ::mtf::testing::OracleGraph;
using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

const Dimension kBatch{"batch", 3}, kModel{"d_model", 4}, kHidden{"d_ff", 2},
    kExperts{"experts", 2}, kMany{"many", 4000};

absl::Status ErrorOf(const std::function<void(Graph&, Tensor x)>& make,
                     DType dtype = kFloat32) {
  Graph graph;
  make(graph, Input(graph, "x", dtype, {kBatch, kModel}));
  return graph.status();
}

TEST(Jitter, MultipliesByNumbersAroundOne) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kMany}, std::vector<double>(4000, 2.0));
  const Tensor y = nn::Jitter(x, 0.25);
  double sum = 0, low = 2, high = 2;
  for (const double value : o.Run(y)) {
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_GE(low, 1.5);
  EXPECT_LT(low, 1.51);
  EXPECT_LT(high, 2.5);
  EXPECT_GT(high, 2.49);
  EXPECT_NEAR(sum / 4000, 2, 4 * 0.289 / std::sqrt(4000.0));
  const ModeScope mode(o.graph, Mode::kEvaluate);
  EXPECT_TRUE(SameTensor(nn::Jitter(x, 0.25), x));
  EXPECT_THAT(ErrorOf([](Graph&, Tensor t) { nn::Jitter(t, 1); }),
              StatusIs(kInvalid, HasSubstr("epsilon is 1")));
}

TEST(AnnealedDropout, DropsTheFractionOfTheStep) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kMany}, std::vector<double>(4000, 1.0));
  const Tensor rate = o.Parameter("rate", {}, {0.75});
  const Tensor y = nn::AnnealedDropout(x, rate);
  for (const double r : {0.75, 0.5, 0.0}) {
    o.Fill();
    o.variables["rate"].data = {r};
    int kept = 0;
    for (const double value : o.Run(y)) {
      if (value == 0) continue;
      EXPECT_EQ(value, 1 / (1 - r));
      ++kept;
    }
    EXPECT_NEAR(kept / 4000.0, 1 - r, 4 * std::sqrt(r * (1 - r) / 4000));
  }
  const Tensor sum = ReduceSum(y, {});
  EXPECT_FALSE(Gradients(sum, {rate})[0].valid());
  const ModeScope mode(o.graph, Mode::kEvaluate);
  EXPECT_TRUE(SameTensor(nn::AnnealedDropout(x, rate), x));
  EXPECT_THAT(ErrorOf([](Graph&, Tensor t) { nn::AnnealedDropout(t, t); }),
              StatusIs(kInvalid, HasSubstr("the rate is f32 [batch=3, "
                                           "d_model=4], not a scalar f32")));
}

TEST(ScaleGradient, ChangesTheGradientOnly) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kModel}, {1, 2, 3, 4});
  const Tensor y = nn::ScaleGradient(x, -0.5);
  testing::ExpectNear(o.Run(y), {1, 2, 3, 4});
  testing::ExpectNear(o.Run(Gradients(ReduceSum(Square(y), {}), {x})[0]),
                      {-1, -2, -3, -4});
  EXPECT_THAT(
      ErrorOf([](Graph&, Tensor t) { nn::ScaleGradient(t, std::nan("")); }),
      StatusIs(kInvalid, HasSubstr("not finite (scale_gradient, "
                                   "small_layers_test.cc:")));
}

TEST(ClipActivationGradient, LimitsTheRootMeanSquare) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kModel}, {3, 4, 0, 0});
  const auto gradient = [&](double rms) {
    const Tensor y = nn::ClipActivationGradient(x, rms);
    return o.Run(Gradients(ReduceSum(Square(y), {}), {x})[0]);
  };
  // The gradient is [6, 8, 0, 0], its root mean square 5.
  testing::ExpectNear(gradient(6), {6, 8, 0, 0});
  testing::ExpectNear(gradient(1), {1.2, 1.6, 0, 0});
  o.variables["x"].data = {0, 0, 0, 0};
  testing::ExpectNear(gradient(1), {0, 0, 0, 0});
  EXPECT_THAT(
      ErrorOf([](Graph&, Tensor t) { nn::ClipActivationGradient(t, 0); }),
      StatusIs(kInvalid, HasSubstr("rms is 0")));
}

TEST(StraightThrough, HasTheValueOfOneAndTheGradientOfTheOther) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kModel}, {0.2, 0.7, 1.4, -0.6});
  const Tensor y = nn::StraightThrough(Floor(x + 0.5), x);
  EXPECT_EQ(o.Run(y), std::vector<double>({0, 1, 1, -1}));
  testing::ExpectNear(o.Run(Gradients(ReduceSum(y * 3.0, {}), {x})[0]),
                      {3, 3, 3, 3});
  EXPECT_THAT(ErrorOf([](Graph&, Tensor t) {
                nn::StraightThrough(ReduceSum(t, {kBatch}), t);
              }),
              StatusIs(kInvalid, HasSubstr("has no dimension \"d_model\"")));
}

double VarianceOf(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return sum / static_cast<double>(x.size());
}

TEST(UnitScaledEinsum, KeepsVarianceOneForwardAndBackward) {
  const Dimension rows{"rows", 40}, in{"in", 30}, out{"out", 50};
  for (const bool constrain : {false, true}) {
    OracleGraph o;
    const auto normal = [&](Shape shape) {
      return RandomNormal(o.graph, shape, 0, 1, {.per_step = false});
    };
    const Tensor x = normal({rows, in}), w = normal({in, out});
    const Tensor y =
        nn::UnitScaledEinsum({x, w}, {rows, out}, {.constrain = constrain});
    const std::vector<Tensor> gradients =
        Gradients(y, {x, w}, normal({rows, out}));
    const auto values = o.RunAll({y, gradients[0], gradients[1]});
    const double ratio = constrain ? std::sqrt(30.0 / 50.0) : 1;
    EXPECT_NEAR(VarianceOf(values[0]), ratio, 0.15);
    EXPECT_NEAR(VarianceOf(values[1]), 1 / ratio, 0.2);
    EXPECT_NEAR(VarianceOf(values[2]), 1, 0.15);
    // The scales are exact.
    const Tensor plain = Einsum({x, w}, {rows, out});
    const double scale =
        constrain ? std::pow(30.0 * 50.0, -0.25) : 1 / std::sqrt(30.0);
    testing::ExpectNear(values[0], o.Run(plain * scale), 1e-6);
  }
  EXPECT_THAT(ErrorOf([](Graph&, Tensor t) {
                nn::UnitScaledEinsum({t}, {{"other", 2}});
              }),
              StatusIs(kInvalid, HasSubstr("\"other\"")));
}

// The gradient of a constrained product is that of the product, scaled.
TEST(UnitScaledEinsum, ConstrainedGradientsOfActivationsAreExact) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor w = Constant(o.graph, testing::SomeNumbers(8, 4), kFloat32,
                            {kModel, kHidden});
  o.ExpectGradientsOf(
      testing::Probe(o, nn::UnitScaledEinsum({x, w}, {kBatch, kHidden})));
}

TEST(ScaleNorm, HasALengthThatIsAParameter) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  const Tensor y = nn::ScaleNorm(x, kModel, {.epsilon = 1e-9});
  o.Fill();
  o.variables["scale_norm/scale"].data = {1.5};
  const std::vector<double> actual = o.Run(y);
  const auto& in = o.Value("x");
  for (int b = 0; b < 3; ++b) {
    double energy = 0;
    for (int d = 0; d < 4; ++d) energy += in[b * 4 + d] * in[b * 4 + d];
    for (int d = 0; d < 4; ++d) {
      EXPECT_NEAR(actual[b * 4 + d], 1.5 * in[b * 4 + d] / std::sqrt(energy),
                  1e-6);
    }
  }
  o.ExpectGradientsOf(testing::Probe(o, y));
  EXPECT_THAT(ErrorOf([](Graph&, Tensor t) { nn::ScaleNorm(t, kHidden); }),
              StatusIs(kInvalid, HasSubstr("(scale_norm, small_layers")));
}

TEST(Rezero, MultipliesByAScalarThatBeginsAtZero) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kModel}, {1, 2, 3, 4});
  const Tensor y = nn::Rezero(x);
  const Tensor initial = o.graph.variables().back().initial_value;
  EXPECT_EQ(o.Run(initial), std::vector<double>({0}));
  o.Fill();
  o.variables["rezero/scale"].data = {0.5};
  testing::ExpectNear(o.Run(y), {0.5, 1, 1.5, 2});
  o.ExpectGradientsOf(testing::Probe(o, y));
  EXPECT_THAT(ErrorOf([](Graph&, Tensor t) { nn::Rezero(t); }, kInt32),
              StatusIs(kInvalid, HasSubstr("rezero takes a float dtype")));
}

TEST(Dense, HasAKernelForEachExpert) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kExperts, kBatch, kModel});
  const Tensor y = nn::Dense(x, {kModel}, {kHidden}, {.each = {kExperts}});
  EXPECT_EQ(y.shape(), Shape({kExperts, kBatch, kHidden}));
  const std::vector<double> actual = o.Run(y);
  const auto& kernel = o.Value("dense/kernel");  // [experts, d_model, d_ff]
  const auto& bias = o.Value("dense/bias");      // [experts, d_ff]
  std::vector<double> expected;
  for (int e = 0; e < 2; ++e) {
    for (int b = 0; b < 3; ++b) {
      for (int h = 0; h < 2; ++h) {
        double sum = bias[e * 2 + h];
        for (int d = 0; d < 4; ++d) {
          sum +=
              o.Value("x")[(e * 3 + b) * 4 + d] * kernel[(e * 4 + d) * 2 + h];
        }
        expected.push_back(sum);
      }
    }
  }
  testing::ExpectNear(actual, expected);
  o.ExpectGradientsOf(testing::Probe(o, y));
  EXPECT_THAT(ErrorOf([](Graph&, Tensor t) {
                nn::Dense(t, {kModel}, {kHidden}, {.each = {kModel}});
              }),
              StatusIs(kInvalid, HasSubstr("\"d_model\" of .each is also "
                                           "reduced")));
  EXPECT_THAT(ErrorOf([](Graph&, Tensor t) {
                nn::Dense(t, {kModel}, {kHidden}, {.each = {kExperts}});
              }),
              StatusIs(kInvalid, HasSubstr("no dimension \"experts\"")));
}

TEST(DenseProduct, MultipliesLayersWithTheirActivations) {
  OracleGraph o;
  const Tensor x = o.Parameter("x", {kBatch, kModel});
  Tensor product, expected;
  {
    const Scope scope(o.graph, "net");
    product = nn::DenseProduct(x, {kModel}, {kHidden}, {Tanh, nullptr, Relu},
                               {.name = "gates"});
  }
  {
    const Scope scope(o.graph, "net", Scope::kReuse);
    const Scope gates(o.graph, "gates", Scope::kReuse);
    const auto factor = [&](const char* name) {
      return nn::Dense(x, {kModel}, {kHidden}, {.name = name});
    };
    expected = Tanh(factor("factor_0"));
    expected = expected * factor("factor_1");
    expected = expected * Relu(factor("factor_2"));
  }
  ASSERT_OK(o.graph.status());
  testing::ExpectNear(o.Run(product), o.Run(expected), 1e-12);
  EXPECT_THAT(ErrorOf([](Graph&, Tensor t) {
                nn::DenseProduct(t, {kModel}, {kHidden}, {});
              }),
              StatusIs(kInvalid,
                       HasSubstr("takes at least one entry in `activations`")));
}

// GLU, ReGLU, GEGLU, SwiGLU and the bilinear layer.
TEST(FeedForward, TakesAnyGate) {
  const std::pair<nn::Activation, double (*)(double)> gates[] = {
      {Sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {Relu, [](double x) { return std::max(x, 0.0); }},
      {Gelu,
       [](double x) {
         return 0.5 * x *
                (1 +
                 std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       }},
      {Swish, [](double x) { return x / (1 + std::exp(-x)); }},
      {nullptr, [](double x) { return x; }}};
  for (const auto& [activation, function] : gates) {
    OracleGraph o;
    const Tensor x = o.Parameter("x", {kModel});
    const Tensor y = nn::FeedForward(x, kHidden, activation, {.gated = true});
    const std::vector<double> actual = o.Run(y);
    std::vector<double> expected(4, 0.0);
    for (int h = 0; h < 2; ++h) {
      double in = 0, gate = 0;
      for (int d = 0; d < 4; ++d) {
        in += o.Value("x")[d] * o.Value("feed_forward/in/kernel")[d * 2 + h];
        gate +=
            o.Value("x")[d] * o.Value("feed_forward/gate/kernel")[d * 2 + h];
      }
      for (int d = 0; d < 4; ++d) {
        expected[d] +=
            function(gate) * in * o.Value("feed_forward/out/kernel")[h * 4 + d];
      }
    }
    testing::ExpectNear(actual, expected);
  }
}

}  // namespace
}  // namespace mtf
